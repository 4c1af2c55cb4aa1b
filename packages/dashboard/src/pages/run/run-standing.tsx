import { PENDING_REASONS } from '@longshore/client/constants';
import { plainText } from '@longshore/common/shown-text';
import { useState } from 'react';
import type { Run, Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { Fact } from '../../components/values/facts.js';
import { WorkerLink } from '../../components/values/named-links.js';
import { Duration, Time } from '../../components/values/time.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount, formatMb } from '../../lib/format.js';
import { unableTo, whyNotClaiming } from '../workers/worker-view.js';
import explainDialogStyles from './explain-dialog.module.css';
import styles from './run-standing.module.css';
import { useExplanation } from './use-run.js';

/** How a run stands, in plain words: why it waits, who has it, or how it ended. Its height stays the same until it has failed. */
export function RunStanding({ run }: { readonly run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const { state } = run;
  const fits = useExplanation(run);
  if (state === 'FAILED') return <Failure run={run} explanation={fits} />;
  return (
    <div className={styles.standing} role="status">
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

/** Why a run has failed, in full; of a long reason the end is in sight first. */
function Failure({ run: { execution_summary: summary }, explanation }: WordsProps) {
  return (
    <div className={classNames(styles.standing, styles.bad)} role="alert">
      <strong>
        Failed
        {summary.worker_id !== undefined && (
          <>
            {' '}
            on <WorkerLink id={summary.worker_id} />
          </>
        )}
        :{' '}
      </strong>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what can be scrolled has to be reached by keyboard */}
      <div className={styles.reason} tabIndex={0} role="group" aria-label="Why it failed">
        <p>{plainText(summary.error_message ?? reasonOf(explanation)).trimEnd()}</p>
      </div>
    </div>
  );
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
          {typeof holder?.away_until === 'string' && (
            <>
              , away until <Time at={holder.away_until} />, such as for an upgrade: the run goes on
            </>
          )}
          {holder?.is_active === false &&
            holder.away_until === null &&
            holder.worker_id !== null &&
            '; it is stale'}
          .{holder?.engine && <Job engine={holder.engine} isWaiting={state === 'ASSIGNED'} />}
          {holder?.preparing && (
            <>
              {' '}
              It prepares the run since <Time at={holder.preparing.since} />: {holder.preparing.what}.
            </>
          )}
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
      {isWaiting && reason !== null && `: ${plainText(reason).replace(/\.$/, '')}`}.
    </>
  );
}

function reasonOf(explanation: Schemas['RunExplanation'] | undefined): string {
  if (!explanation?.ended) return '';
  const { event, msg } = explanation.ended;
  if (event === null) return 'an admin set the state.';
  return msg === null || msg === '' ? 'no reason was given.' : String(msg);
}

type Explanation = Schemas['RunExplanation'];
type Obstacle = Schemas['ExplainedObstacle'];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Undefined when the run does not wait any more. */
  readonly explanation: Explanation | undefined;
}

/** Why a run waits: its place in the queue, and what keeps each worker from taking it. */
function ExplainDialog({ isOpen, onClose, explanation }: Props) {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Why does it wait?" width="wide">
      {explanation === undefined ? <p>It does not wait any more.</p> : <Reasons explanation={explanation} />}
    </Dialog>
  );
}

function Reasons({
  explanation: { summary, reason, queue, counts, workers, strategy },
}: {
  explanation: Explanation;
}) {
  return (
    <div className={explainDialogStyles.reasons}>
      <p>{summary}</p>
      <dl className={explainDialogStyles.facts}>
        <Fact name="Place in the queue">
          {typeof queue?.position === 'number'
            ? formatCount(queue.position)
            : `none: ${PENDING_REASONS[reason ?? 'queue']}`}
        </Fact>
        <Fact name="Queued">
          <Time at={queue?.queued_at} />
        </Fact>
        {typeof queue?.passed_over_at === 'string' && (
          <Fact name="Others went before it">
            since <Time at={queue.passed_over_at} />
          </Fact>
        )}
        <Fact name="Workers">
          {formatCount(counts?.active ?? 0)} active, {formatCount(counts?.draining ?? 0)} of them draining,{' '}
          {formatCount(counts?.not_claiming ?? 0)} not claiming, {formatCount(counts?.away ?? 0)} away,{' '}
          {formatCount(counts?.stale ?? 0)} stale
        </Fact>
        <Fact name="Strategy">{strategy}</Fact>
      </dl>
      {workers.length > 0 && (
        <ul className={explainDialogStyles.workers}>
          {workers.map(({ id, can_take_now: canNow, could_ever: couldEver, draining, ...why }) => (
            <li key={id}>
              <WorkerLink id={id} />
              <span>
                {canNow && 'can take it when its turn comes'}
                {!canNow && draining && 'is draining and takes no new runs'}
                {!canNow && !draining && whyNot(why)}
                {!canNow && !couldEver && !draining && ' (not even when it is idle)'}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

type Refusal = Pick<Explanation['workers'][number], 'not_claiming' | 'unable' | 'obstacles'>;

function whyNot(why: Refusal): string {
  const said = why.not_claiming.length === 0 ? [] : [`claims nothing (${whyNotClaiming(why)})`];
  const lost = why.unable.length === 0 ? [] : [`is unable to provide ${unableTo(why)}`];
  return [...said, ...lost, ...why.obstacles.map(describe)].join('; ') || 'cannot take it now';
}

function describe({ resource, needed, free, total, missing }: Obstacle): string {
  if (resource === 'tags') return `lacks the tags ${missing?.join(', ')}`;
  if (resource === 'capabilities') return (missing ?? []).map(describeMissing).join(', ');
  if (resource === 'concurrency') return `waits for the concurrency key: ${formatCount(total)} may execute`;
  const names: Readonly<Record<string, string>> = {
    cpu: 'CPU cores',
    ram_mb: 'RAM',
    vram_mb: 'GPU memory',
    gpus: 'whole GPUs',
  };
  if (resource === 'reserved') return 'is kept free for another run';
  const size = resource.endsWith('_mb') ? formatMb : formatCount;
  return `needs ${size(needed)} ${names[resource] ?? resource}, ${size(free)} of ${size(total)} free`;
}

function describeMissing(capability: string): string {
  const [, volume, isWritable] = /^volume:([^:]+)(:rw)?$/.exec(capability) ?? [];
  if (volume === undefined) return `lacks the capability ${capability}`;
  return `does not offer the volume '${volume}'${isWritable === undefined ? '' : ' for writing'}`;
}
