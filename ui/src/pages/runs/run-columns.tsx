import { Link } from 'wouter';
import type { Tone } from '../../components/badge.js';
import { CopyButton } from '../../components/copy-button.js';
import type { Column } from '../../components/data-table.js';
import { Duration } from '../../components/duration.js';
import { ProgressBar } from '../../components/progress-bar.js';
import { StateBadge, type RunState } from '../../components/state-badge.js';
import { Time } from '../../components/time.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount, shortId } from '../../lib/format.js';
import { isEnded, type Run } from './run-view.js';
import styles from './runs-page.module.css';

/** The columns of the list of runs. */
export const RUN_COLUMNS: readonly Column<Run>[] = [
  {
    id: 'state',
    header: 'State',
    width: '6.5rem',
    card: 'title',
    cell: ({ state, id }) => (
      <>
        <StateBadge state={state} />
        <span className="visually-hidden"> run {shortId(id)}</span>
      </>
    ),
  },
  {
    id: 'run',
    header: 'Run',
    width: '10.75rem',
    cell: ({ id }) => (
      <span className={styles.id}>
        <code title={id}>{shortId(id)}</code>
        <CopyButton what="run id" text={id} />
      </span>
    ),
  },
  {
    id: 'what',
    header: 'Definition or image',
    width: 'minmax(8rem, 3fr)',
    card: 'full',
    cell: (run) => <What run={run} />,
  },
  {
    id: 'priority',
    header: 'Priority',
    width: '4rem',
    align: 'end',
    cell: ({ priority }) => <span className={styles.number}>{formatCount(priority)}</span>,
  },
  {
    id: 'attempt',
    header: 'Attempt',
    width: '4rem',
    align: 'end',
    cell: ({ current_attempt: attempt, retry_policy: { max_attempts: most } }) => (
      <span
        className={styles.number}
        title={`Attempt ${formatCount(attempt)}; fails for good after ${formatCount(most)} failed`}
      >
        {formatCount(attempt)}
        {most > 1 && <span className="muted"> / {formatCount(most)}</span>}
      </span>
    ),
  },
  { id: 'progress', header: 'Progress', width: 'minmax(6.5rem, 1fr)', cell: (run) => <Progress run={run} /> },
  {
    id: 'created',
    header: 'Created',
    width: '5.5rem',
    cell: ({ createdAt }) => <Time at={createdAt} />,
  },
  {
    id: 'duration',
    header: 'Duration',
    width: '6rem',
    cell: ({ state, execution_summary: { started_at: from, finished_at: to } }) =>
      isEnded(state) || state === 'RUNNING' ? (
        <Duration from={isEnded(state) && to === undefined ? undefined : from} to={to} />
      ) : (
        <span className="muted">–</span>
      ),
  },
  {
    id: 'worker',
    header: 'Worker',
    width: 'minmax(5rem, 1.2fr)',
    cell: ({ execution_summary: { worker_id: worker } }) =>
      worker === undefined ? (
        <span className="muted">–</span>
      ) : (
        <Link className={styles.worker} href={`/workers?worker=${encodeURIComponent(worker)}`} title={worker}>
          {worker}
        </Link>
      ),
  },
];

function What({ run }: { readonly run: Run }) {
  const {
    image,
    op_definition: definition,
    op_definition_version: version,
    state,
    event_delivery: feed,
  } = run;
  const isMade = definition !== null;
  const name = isMade ? `${definition} ${version ?? ''}` : image;
  const error = state === 'FAILED' ? run.execution_summary.error_message : undefined;
  const topic = feed === null ? '' : `topic ${feed.topic}`;
  const rest = error ?? (isMade ? image : topic);
  return (
    <>
      <span className={styles.what} title={isMade ? `${name}\n${image}` : image}>
        {isMade ? definition : image}
        {isMade && <span className="muted"> {version}</span>}
      </span>
      <span className={classNames(styles.why, error !== undefined && styles.failed)} title={rest}>
        {rest}
      </span>
    </>
  );
}

const TONES: Readonly<Partial<Record<RunState, Tone>>> = {
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'neutral',
};

function Progress({ run: { state, progress } }: { readonly run: Run }) {
  if (state === 'PENDING' || (state === 'ASSIGNED' && progress === 0)) {
    return <span className="muted">–</span>;
  }
  return <ProgressBar label="Progress" percent={progress} tone={TONES[state] ?? 'info'} />;
}
