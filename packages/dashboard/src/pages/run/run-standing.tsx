import { useState } from 'react';
import { Button } from '../../components/controls/button.js';
import { Duration } from '../../components/values/duration.js';
import { WorkerLink } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import type { Schemas } from '../../api/use-api.js';
import { classNames } from '../../lib/class-names.js';
import { ExplainDialog } from './explain-dialog.js';
import styles from './run-standing.module.css';
import type { Run } from './run-view.js';
import { useExplanation } from './use-run.js';

/** How a run stands, in plain words: why it waits, who has it, or how it ended. Its height stays the same. */
export function RunStanding({ run }: { readonly run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const { state } = run;
  const fits = useExplanation(run);
  const isBad = state === 'FAILED';
  return (
    <div className={classNames(styles.standing, isBad && styles.bad)} role={isBad ? 'alert' : 'status'}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what can be scrolled has to be reached by keyboard */}
      <div className={styles.text} tabIndex={0} role="group" aria-label="What the run does">
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
      if (explanation?.queue?.start_at) {
        return (
          <>
            Starts <Time at={explanation.queue.start_at} /> at the earliest.
          </>
        );
      }
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
          {holder?.engine && <Job engine={holder.engine} isWaiting={state === 'ASSIGNED'} />}
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

interface JobProps {
  readonly engine: Schemas['ExplainedEngine'];
  readonly isWaiting: boolean;
}

/** The job of the run in the engine of its launcher. */
function Job({ engine: { name, id, reason }, isWaiting }: JobProps) {
  return (
    <>
      {' '}
      {isWaiting ? `It waits in ${name}` : `It is executed by ${name}`} as job {id}
      {isWaiting && reason !== null && `: ${reason.replace(/\.$/, '')}`}.
    </>
  );
}

function reasonOf(explanation: Schemas['RunExplanation'] | undefined): string {
  if (!explanation?.ended) return '';
  const { event, msg } = explanation.ended;
  if (event === null) return 'an admin set the state.';
  return msg === null || msg === '' ? 'no reason was given.' : String(msg);
}
