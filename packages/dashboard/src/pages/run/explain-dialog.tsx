import { Fact } from '../../components/values/fact.js';
import type { Schemas } from '../../api/use-api.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { WorkerLink } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import { formatCount, formatMb } from '../../lib/format.js';
import { whyNotClaiming } from '../workers/worker-view.js';
import styles from './explain-dialog.module.css';

type Explanation = Schemas['RunExplanation'];
type Obstacle = Schemas['ExplainedObstacle'];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Undefined when the run does not wait any more. */
  readonly explanation: Explanation | undefined;
}

/** Why a run waits: its place in the queue, and what keeps each worker from taking it. */
export function ExplainDialog({ isOpen, onClose, explanation }: Props) {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Why does it wait?" width="wide">
      {explanation === undefined ? <p>It does not wait any more.</p> : <Reasons explanation={explanation} />}
    </Dialog>
  );
}

function Reasons({
  explanation: { summary, queue, counts, workers, strategy },
}: {
  explanation: Explanation;
}) {
  return (
    <div className={styles.reasons}>
      <p>{summary}</p>
      <dl className={styles.facts}>
        <Fact name="Place in the queue">
          {typeof queue?.position === 'number' && formatCount(queue.position)}
          {typeof queue?.position !== 'number' && (queue?.start_at ? 'not before its start' : 'in back-off')}
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
          {formatCount(counts?.not_claiming ?? 0)} not claiming, {formatCount(counts?.stale ?? 0)} stale
        </Fact>
        <Fact name="Strategy">{strategy}</Fact>
      </dl>
      {workers.length > 0 && (
        <ul className={styles.workers}>
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

type Refusal = Pick<Explanation['workers'][number], 'not_claiming' | 'obstacles'>;

function whyNot(why: Refusal): string {
  const said = why.not_claiming.length === 0 ? [] : [`claims nothing (${whyNotClaiming(why)})`];
  return [...said, ...why.obstacles.map(describe)].join('; ') || 'cannot take it now';
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
