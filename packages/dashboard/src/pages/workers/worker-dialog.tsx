import { Link } from 'wouter';
import { Dialog } from '../../components/feedback/dialog.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { Fact } from '../../components/values/facts.js';
import { RunLink } from '../../components/values/named-links.js';
import { ResourceBar } from '../../components/values/resource-bar.js';
import { Time } from '../../components/values/time.js';
import { formatCount, formatMb } from '../../lib/format.js';
import { useSession } from '../../session/session-context.js';
import { DrainButton, WorkerStateBadge } from './worker-columns.js';
import styles from './worker-dialog.module.css';
import {
  assignedRuns,
  cpuUse,
  formerRuns,
  gpuUses,
  jobsOf,
  ramUse,
  stateOf,
  unableTo,
  whyNotClaiming,
  type Worker,
} from './worker-view.js';

interface Props {
  /** The worker that is asked for; empty for none. */
  readonly id: string;
  /** Undefined when it is not there, or no longer. */
  readonly worker: Worker | undefined;
  readonly onClose: () => void;
}

/** Everything about one worker. */
export function WorkerDialog({ id, worker, onClose }: Props) {
  const { may } = useSession();
  return (
    <Dialog
      isOpen={id !== ''}
      onClose={onClose}
      title={id}
      width="wide"
      {...(worker !== undefined && may() ? { actions: <DrainButton worker={worker} /> } : {})}
    >
      {worker === undefined ? (
        <EmptyState icon="workers" title="Worker not found">
          Workers are forgotten a day after their last heartbeat, and when the service starts anew.
        </EmptyState>
      ) : (
        <Details worker={worker} />
      )}
      <Link href={`/runs?worker_id=${encodeURIComponent(id)}`}>
        Runs of this worker, with those that have ended
      </Link>
    </Dialog>
  );
}

function Details({ worker }: { readonly worker: Worker }) {
  const gpus = gpuUses(worker);
  const assigned = assignedRuns(worker);
  const former = formerRuns(worker);
  return (
    <div className={styles.details}>
      <dl className={styles.facts}>
        <Fact name="State">
          <WorkerStateBadge state={stateOf(worker)} />
        </Fact>
        {worker.away_until !== undefined && (
          <Fact name="Keeps its runs without heartbeats until">
            <Time at={worker.away_until} />
          </Fact>
        )}
        {worker.not_claiming.length > 0 && <Fact name="Does not claim">{whyNotClaiming(worker)}</Fact>}
        {worker.unable.length > 0 && <Fact name="Unable to provide">{unableTo(worker)}</Fact>}
        <Fact name="Last heartbeat">
          <Time at={worker.last_heartbeat_at} />
        </Fact>
        <Fact name="First heartbeat">
          <Time at={worker.created_at} />
        </Fact>
        <Fact name="Tags">{listed(worker.tags)}</Fact>
        <Fact name="Capabilities">{listed(worker.capabilities)}</Fact>
        {worker.engine !== undefined && (
          <Fact name={`Jobs in ${worker.engine.name}`}>{jobsOf(worker.engine).join(', ')}</Fact>
        )}
      </dl>
      <section>
        <h3>Resources</h3>
        <div className={styles.resources}>
          <ResourceBar label="CPU cores" {...cpuUse(worker)} hasLabel />
          <ResourceBar label="RAM" {...ramUse(worker)} format={formatMb} hasLabel />
          {gpus.map(({ id, tags, used, total }) => (
            <ResourceBar
              key={id}
              label={['GPU', id, ...tags].join(' ')}
              used={used}
              total={total}
              format={formatMb}
              hasLabel
            />
          ))}
        </div>
      </section>
      <section>
        <h3>Runs ({assigned.count})</h3>
        {assigned.count === 0 && <p className="muted">No run is assigned to the worker.</p>}
        <RunList
          runs={assigned.ids.map((id) => ({
            id,
            image: worker.running_ops.find((run) => run.id === id)?.image ?? '',
          }))}
        />
        {assigned.count > assigned.ids.length && (
          <p className="muted">+{formatCount(assigned.count - assigned.ids.length)} more</p>
        )}
      </section>
      {former.length > 0 && (
        <section className="muted">
          <h3>Last reported ({former.length})</h3>
          <p>No longer assigned to the worker: they have ended, or wait, or others have them.</p>
          <RunList runs={former} />
        </section>
      )}
    </div>
  );
}

function RunList({
  runs,
}: {
  readonly runs: readonly Pick<Worker['running_ops'][number], 'id' | 'image'>[];
}) {
  return (
    <ul className={styles.runs}>
      {runs.map(({ id, image }) => (
        <li key={id}>
          <RunLink id={id} />
          <span className="truncate" title={image}>
            {image}
          </span>
        </li>
      ))}
    </ul>
  );
}

function listed(words: readonly string[] = []) {
  return words.length === 0 ? <span className="muted">none</span> : words.join(', ');
}
