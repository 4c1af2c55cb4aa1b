import { TERMINAL_STATES, type RunState } from '@longshore/client/constants';
import { plainText } from '@longshore/common/shown-text';
import { Link } from 'wouter';
import type { Run } from '../../api/use-api.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import type { Column } from '../../components/table/data-table.js';
import { StateBadge, type Tone } from '../../components/values/badge.js';
import { ProgressBar } from '../../components/values/progress-bar.js';
import { Duration, Time } from '../../components/values/time.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount, shortId } from '../../lib/format.js';
import styles from './runs-page.module.css';

const STATE: Column<Run> = {
  header: 'State',
  width: '6.25rem',
  card: 'title',
  cell: (run) => <State run={run} />,
};
const RUN: Column<Run> = {
  header: 'Run',
  width: '8.75rem',
  cell: ({ id }) => (
    <span className={styles.id}>
      <code title={id}>{shortId(id)}</code>
      <CopyButton what="run id" text={id} />
    </span>
  ),
};
const WHAT: Column<Run> = {
  header: 'Made from',
  width: 'minmax(7rem, 3fr)',
  card: 'full',
  cell: (run) => <What run={run} />,
};
const PRIORITY: Column<Run> = {
  header: 'Priority',
  width: '3.5rem',
  align: 'end',
  cell: ({ priority }) => (
    <span className={styles.number} title={formatCount(priority)}>
      {formatCount(priority)}
    </span>
  ),
};
const ATTEMPT: Column<Run> = {
  header: 'Attempt',
  width: '3.5rem',
  align: 'end',
  cell: ({ current_attempt: attempt, retry_policy: { max_attempts: most } }) => (
    <span
      className={styles.number}
      title={`Attempt ${formatCount(attempt)}; attempts that may fail: ${formatCount(most)}`}
    >
      {formatCount(attempt)}
      {attempt <= most && most > 1 && <span className="muted"> / {formatCount(most)}</span>}
    </span>
  ),
};
const CREATED: Column<Run> = {
  header: 'Created',
  width: '5rem',
  cell: ({ createdAt }) => <Time at={createdAt} />,
};
const WORKER: Column<Run> = {
  header: 'Worker',
  width: 'minmax(4.5rem, 1.2fr)',
  cell: ({ execution_summary: { worker_id: worker } }) =>
    worker === undefined ? (
      <span className="muted">–</span>
    ) : (
      <Link className={styles.worker} href={`/workers?worker=${encodeURIComponent(worker)}`} title={worker}>
        {worker}
      </Link>
    ),
};

/** Pixels of a row of the list of runs. */
export const ROW_HEIGHT = { line: 48, card: 252 };

/** Where there is room for {@link WIDE_COLUMNS}. */
export const ROOM_FOR_ALL = '(min-width: 84rem)';

/** The columns of the list of runs, where there is room for all of them. */
export const WIDE_COLUMNS: readonly Column<Run>[] = [
  STATE,
  RUN,
  WHAT,
  { ...PRIORITY, width: '7rem' },
  ATTEMPT,
  { header: 'Progress', width: 'minmax(6.5rem, 1fr)', cell: (run) => <Progress run={run} /> },
  CREATED,
  { header: 'Duration', width: '6rem', cell: (run) => <Took run={run} /> },
  WORKER,
];

/** The same in less room: progress below the state, the duration below the time of creation. */
export const NARROW_COLUMNS: readonly Column<Run>[] = [
  {
    ...STATE,
    cell: (run) => (
      <span className={styles.stateLine}>
        <State run={run} />
        {run.state === 'RUNNING' && <ProgressBar label="Progress" percent={run.progress} />}
      </span>
    ),
  },
  WHAT,
  RUN,
  {
    ...CREATED,
    width: '5.5rem',
    cell: (run) => (
      <>
        <Time at={run.createdAt} />
        <span className={styles.why}>
          {run.execution_summary.started_at !== undefined && <Took run={run} />}
        </span>
      </>
    ),
  },
  ATTEMPT,
  PRIORITY,
  WORKER,
];

function State({ run: { state, id } }: { readonly run: Run }) {
  return (
    <>
      <StateBadge state={state} />
      <span className="visually-hidden"> run {shortId(id)}</span>
    </>
  );
}

function Took({ run: { state, execution_summary: summary } }: { readonly run: Run }) {
  const { started_at: from, finished_at: to } = summary;
  const isOver = TERMINAL_STATES.has(state) && to !== undefined;
  return state === 'RUNNING' || isOver ? <Duration from={from} to={to} /> : <span className="muted">–</span>;
}

function What({ run }: { readonly run: Run }) {
  const {
    image,
    op_definition: definition,
    op_definition_version: version,
    state,
    event_delivery: feed,
  } = run;
  const isMade = definition !== null;
  const source = isMade ? `${definition} ${version ?? ''}` : image;
  const labels = Object.entries(run.labels).map((label) => label.join('='));
  const { error_message: message } = run.execution_summary;
  const error = state === 'FAILED' && message !== undefined ? plainText(message) : undefined;
  const topic = feed === null ? '' : `topic ${feed.topic}`;
  const origin = run.name === null ? (isMade ? image : topic) : source;
  const waits =
    run.reason === undefined || run.reason === 'queue' ? '' : `waits: ${run.reason.replaceAll('_', ' ')}`;
  const rest = error ?? [waits, origin, ...labels].filter((text) => text !== '').join(' · ');
  return (
    <>
      <span className={styles.what} title={isMade ? `${source}\n${image}` : image}>
        {run.name ?? (isMade ? definition : image)}
        {run.name === null && isMade && <span className="muted"> {version}</span>}
      </span>
      {rest !== '' && (
        <span className={classNames(styles.why, error !== undefined && styles.failed)} title={rest}>
          {rest}
        </span>
      )}
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
