import { useState } from 'react';
import { Button } from '../../components/button.js';
import { Duration } from '../../components/duration.js';
import { WorkerLink } from '../../components/named-links.js';
import { Time } from '../../components/time.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { classNames } from '../../lib/class-names.js';
import { ExplainDialog } from './explain-dialog.js';
import styles from './run-standing.module.css';
import { isEnded, type Run } from './run-view.js';

/** How a run stands, in plain words: why it waits, who has it, or how it ended. Its height stays the same. */
export function RunStanding({ run }: { readonly run: Run }) {
  const api = useApi();
  const [isOpen, setOpen] = useState(false);
  const { id, state, current_attempt: attempt } = run;
  const { data } = useLive({
    queryKey: ['runs', id, 'explain', isEnded(run) ? `${state} ${attempt}` : 'now'],
    queryFn: ({ signal }) => unwrap(api.GET('/runs/{id}/explain', { params: { path: { id } }, signal })),
    everyMs: isEnded(run) ? false : 2000,
  });
  const fits = data?.state === state && data.attempt === attempt ? data : undefined;
  const isBad = state === 'FAILED';
  return (
    <div className={classNames(styles.standing, isBad && styles.bad)} role={isBad ? 'alert' : 'status'}>
      <div className={styles.text}>
        <Words run={run} explanation={fits} />
      </div>
      {state === 'PENDING' && (
        <Button size="small" onClick={() => setOpen(true)}>
          Why does it wait?
        </Button>
      )}
      <ExplainDialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        explanation={state === 'PENDING' ? fits : undefined}
      />
    </div>
  );
}

interface WordsProps {
  readonly run: Run;
  readonly explanation: Schemas['RunExplanation'] | undefined;
}

function Words({ run, explanation }: WordsProps) {
  const { state, execution_summary: summary } = run;
  const worker = summary.worker_id === undefined ? null : <WorkerLink id={summary.worker_id} />;
  switch (state) {
    case 'PENDING':
      if (explanation?.queue?.not_before) {
        return (
          <>
            Waits after a failed attempt; it may be claimed again <Time at={explanation.queue.not_before} />.
          </>
        );
      }
      return explanation?.summary ?? 'Waits for a worker.';
    case 'ASSIGNED':
    case 'RUNNING': {
      const holder = explanation?.holder;
      return (
        <>
          {state === 'ASSIGNED' ? 'Handed to' : 'Running on'} {worker ?? 'no worker yet'}
          {typeof holder?.last_heartbeat_at === 'string' && (
            <>
              , last heard of <Time at={holder.last_heartbeat_at} />
            </>
          )}
          {holder?.is_active === false && holder.worker_id !== null && '; it is stale'}.
          {explanation?.deadline && (
            <>
              {' '}
              Its time is over <Time at={explanation.deadline.at} />.
            </>
          )}
        </>
      );
    }
    case 'FAILED':
      return (
        <>
          <strong>Failed{worker !== null && <> on {worker}</>}: </strong>
          <span className={styles.message}>{summary.error_message ?? reasonOf(explanation)}</span>
        </>
      );
    case 'COMPLETED':
    case 'CANCELLED':
      return (
        <>
          {state === 'COMPLETED' ? 'Completed' : 'Cancelled'}
          {worker !== null && <> on {worker}</>}
          {summary.started_at !== undefined && summary.finished_at !== undefined && (
            <>
              {' '}
              after <Duration from={summary.started_at} to={summary.finished_at} />
            </>
          )}
          {explanation?.ended?.event === null && ', set by an admin'}.
        </>
      );
  }
}

function reasonOf(explanation: Schemas['RunExplanation'] | undefined): string {
  if (!explanation?.ended) return '';
  const { event, msg } = explanation.ended;
  if (event === null) return 'an admin set the state.';
  return msg === null || msg === '' ? 'no reason was given.' : String(msg);
}
