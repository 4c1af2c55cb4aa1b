import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import type { Column } from '../../components/table/data-table.js';
import { Badge, type Tone } from '../../components/values/badge.js';
import { RunLink, WorkerLink } from '../../components/values/named-links.js';
import { ResourceBar } from '../../components/values/resource-bar.js';
import { Time } from '../../components/values/time.js';
import { formatMb } from '../../lib/format.js';
import {
  assignedRuns,
  cpuUse,
  formerRuns,
  gpuUses,
  jobsOf,
  ramUse,
  stateOf,
  whyNotClaiming,
  type Worker,
  type WorkerState,
} from './worker-view.js';
import styles from './workers-page.module.css';

/** What fits into a row; the rest is counted, and shown when the worker is opened, as the runs of a launcher are. */
const RUNS_SHOWN = 2;
const GPUS_SHOWN = 4;

export const WORKER_COLUMNS: readonly Column<Worker>[] = [
  {
    header: 'Worker',
    width: 'minmax(7.5rem, 1.6fr)',
    card: 'title',
    cell: ({ id, engine, tags }) => (
      <>
        <span className={styles.id}>{id}</span>
        <span className={styles.tags}>{[engine?.name ?? [], tags].flat().join(' · ')}</span>
      </>
    ),
  },
  {
    header: 'State',
    width: '6.5rem',
    cell: (worker) => (
      <>
        <span title={whyNotClaiming(worker)}>
          <WorkerStateBadge state={stateOf(worker)} />
        </span>
        <span className={styles.heartbeat}>
          <Time at={worker.last_heartbeat_at} />
        </span>
      </>
    ),
  },
  {
    header: 'CPU cores',
    width: 'minmax(4.5rem, 0.7fr)',
    cell: (worker) => <ResourceBar label="CPU cores" {...cpuUse(worker)} />,
  },
  {
    header: 'RAM',
    width: 'minmax(7.5rem, 1fr)',
    cell: (worker) => <ResourceBar label="RAM" {...ramUse(worker)} format={formatMb} />,
  },
  {
    header: 'GPU memory',
    width: 'minmax(5.5rem, 1fr)',
    cell: (worker) => <Gpus worker={worker} />,
  },
  { header: 'Runs', width: 'minmax(6.5rem, 1fr)', cell: (worker) => <Runs worker={worker} /> },
];

/** For keys that may drain. */
export const DRAIN_COLUMN: Column<Worker> = {
  header: 'Drain',
  width: '5rem',
  align: 'end',
  cell: (worker) => <DrainButton worker={worker} />,
};

function Gpus({ worker }: { readonly worker: Worker }) {
  const gpus = gpuUses(worker);
  if (gpus.length === 0) return <span className="muted">none</span>;
  const more = gpus.length - GPUS_SHOWN;
  return (
    <div className={styles.gpus}>
      {gpus.slice(0, more > 0 ? GPUS_SHOWN - 1 : GPUS_SHOWN).map(({ id, used, total, tags }) => (
        <div key={id} className={styles.gpu}>
          <span aria-hidden="true">{id}</span>
          <ResourceBar
            label={['GPU', id, ...tags].join(' ')}
            used={used}
            total={total}
            format={formatMb}
            isBare
          />
        </div>
      ))}
      {more > 0 && (
        <span className={styles.more} title={`${more + 1} more`}>
          +{more + 1}
        </span>
      )}
    </div>
  );
}

function Runs({ worker }: { readonly worker: Worker }) {
  const { engine } = worker;
  const assigned = assignedRuns(worker);
  if (engine !== undefined) {
    return (
      <ul className={styles.runs} aria-label={`Jobs in ${engine.name}`}>
        {jobsOf(engine).map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    );
  }
  const former = formerRuns(worker).length;
  if (assigned.count + former === 0) return <span className="muted">idle</span>;
  const fit = assigned.count + Math.min(former, 1) <= RUNS_SHOWN;
  const shown = assigned.ids.slice(0, fit ? RUNS_SHOWN : RUNS_SHOWN - 1);
  const more = assigned.count - shown.length;
  const rest = [...(more > 0 ? [`+${more} more`] : []), ...(former > 0 ? [`last reported: ${former}`] : [])];
  return (
    <ul className={styles.runs}>
      {shown.map((id) => (
        <li key={id}>
          <RunLink id={id} />
        </li>
      ))}
      {rest.length > 0 && <li className="muted">{rest.join(', ')}</li>}
    </ul>
  );
}

const TONES: Readonly<Record<WorkerState, Tone>> = {
  active: 'good',
  draining: 'warn',
  'not claiming': 'warn',
  away: 'warn',
  stale: 'bad',
};

/** What a worker is up to. */
export function WorkerStateBadge({ state }: { readonly state: WorkerState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}

/** Drains a worker, or lets it go on, after a question. */
export function DrainButton({ worker: { id, draining } }: { readonly worker: Worker }) {
  const api = useApi();
  // What was asked stays what is done, also when another user drains the worker meanwhile.
  const [asked, setAsked] = useState<'drain' | 'resume'>();

  const confirm = async (): Promise<void> => {
    const params = { path: { worker_id: id } };
    await (asked === 'drain'
      ? unwrap(api.POST('/workers/{worker_id}/drain', { params }))
      : unwrap(api.POST('/workers/{worker_id}/resume', { params })));
    const effect = asked === 'drain' ? ' takes no new runs.' : ' takes runs again.';
    showToast('good', <WorkerLink id={id} />, effect);
  };
  return (
    <>
      <Button
        size="small"
        aria-label={draining ? `Resume ${id}` : `Drain ${id}`}
        onClick={() => setAsked(draining ? 'resume' : 'drain')}
      >
        {draining ? 'Resume' : 'Drain'}
      </Button>
      <ConfirmDialog
        isOpen={asked !== undefined}
        onClose={() => setAsked(undefined)}
        title={asked === 'resume' ? `Resume ${id}?` : `Drain ${id}?`}
        confirmLabel={asked === 'resume' ? 'Resume' : 'Drain'}
        refreshes="workers"
        onConfirm={confirm}
      >
        {asked === 'resume'
          ? 'The worker may claim runs again.'
          : 'The worker gets no new runs until it is resumed. It finishes its current runs.'}
      </ConfirmDialog>
    </>
  );
}
