import { describeError } from '../../../api/api-error.js';
import { EmptyState } from '../../../components/feedback/empty-state.js';
import { ErrorState } from '../../../components/feedback/error-state.js';
import { LiveDot, type Liveness } from '../../../components/values/live-dot.js';
import { formatCount } from '../../../lib/format.js';
import { LogLines } from './log-lines.js';
import type { LogEntry, LogPage } from './log-page.js';
import styles from './log-panel.module.css';
import { useLog, type Log } from './use-log.js';

const NO_ENTRIES: readonly LogEntry[] = [];

interface Props {
  readonly runId: string;
  readonly attempt: number;
  readonly contains: string;
  /** The line to show first; undefined: the newest. */
  readonly place: LogEntry | undefined;
  readonly isEnded: boolean;
  readonly wasHandedOut: boolean;
  readonly hasTimes: boolean;
  readonly isWrapped: boolean;
  readonly onGoTo: ((entry: LogEntry) => void) | undefined;
}

/** The lines of a log with a line about how the log stands. */
export function LogViewer(props: Props) {
  const { runId, attempt, contains, place, hasTimes, isWrapped, onGoTo } = props;
  const log = useLog({ runId, attempt, contains, place: place?.cursor ?? '' });
  const { window, error } = log;
  const entries = window?.entries ?? NO_ENTRIES;
  return (
    <>
      <div className={styles.status}>
        <LiveDot state={livenessOf(log)} />
        <span>{statusOf(log, contains)}</span>
        {error !== undefined && window !== undefined && <span>{describeError(error)}</span>}
      </div>
      {window !== undefined && entries.length > 0 ? (
        <LogLines
          log={log}
          entries={entries}
          hasTimes={hasTimes}
          isWrapped={isWrapped}
          marked={contains}
          target={place?.line ?? -1}
          onGoTo={onGoTo}
        />
      ) : (
        <div className={styles.empty} aria-busy={window === undefined && error === undefined}>
          {window !== undefined && <Empty {...props} log={log} window={window} />}
          {window === undefined && error !== undefined && <ErrorState error={error} />}
        </div>
      )}
    </>
  );
}

function Empty({ contains, isEnded, wasHandedOut, window }: Props & { log: Log; window: LogPage }) {
  if (contains !== '') {
    return window.hasOlder ? (
      <p className="muted">Searching further up …</p>
    ) : (
      <EmptyState title="No line contains this text">The search covers all stored lines.</EmptyState>
    );
  }
  if (!wasHandedOut) {
    return (
      <EmptyState icon="runs" title="There is no log">
        {isEnded
          ? 'The attempt ended before a worker had it, so nothing was printed.'
          : 'The log begins when a worker starts the container.'}
      </EmptyState>
    );
  }
  if (window.isComplete) {
    return (
      <EmptyState icon="runs" title="The log is empty">
        The container printed nothing, or its worker became stale before it sent anything.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon="runs" title="No output yet">
      Lines show up here as the container prints them.
    </EmptyState>
  );
}

function livenessOf({ window, stream, error }: Log): Liveness {
  if (window === undefined || error !== undefined) return 'waiting';
  if (window.isComplete) return 'ended';
  if (!window.isAtEnd) return 'paused';
  return stream.state === 'live' ? 'live' : 'waiting';
}

function statusOf({ window, isLoading, stream }: Log, contains: string): string {
  if (window === undefined) return '';
  const { entries, isComplete, isAtEnd, hasOlder, leftOut } = window;
  if (stream.state === 'refused') return stream.error?.message ?? '';
  const lines = entries.filter((entry) => 'text' in entry).length;
  if (contains !== '') {
    const more = hasOlder || !isAtEnd ? ' so far' : '';
    return `${formatCount(lines)} ${lines === 1 ? 'line' : 'lines'} found${more}${isLoading ? ', searching' : ''}`;
  }
  const last = entries.at(-1);
  if (last === undefined) return isComplete ? 'complete, nothing printed' : '';
  const count = last.line + ('gap' in last ? last.gap.lines : 1);
  if (!isAtEnd) return `lines ${formatCount((entries[0]?.line ?? 0) + 1)} to ${formatCount(count)}`;
  const printed = `${formatCount(count)} ${count === 1 ? 'line' : 'lines'} printed`;
  if (leftOut > 0)
    return `${printed}, ended: ${formatCount(count - leftOut)} kept, ${formatCount(leftOut)} left out`;
  return `${printed}${isComplete ? ', complete' : ''}`;
}
