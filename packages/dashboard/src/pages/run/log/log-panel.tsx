import { useEffect, useRef, useState } from 'react';
import { describeError } from '../../../api/answers.js';
import { useApi } from '../../../api/use-api.js';
import { Button } from '../../../components/controls/button.js';
import { Checkbox } from '../../../components/controls/inputs.js';
import { EmptyState, ErrorState } from '../../../components/feedback/empty-state.js';
import { showToast } from '../../../components/feedback/toasts.js';
import { SearchInput } from '../../../components/table/filter-bar.js';
import { LiveDot, type Liveness } from '../../../components/values/live-dot.js';
import { formatCount } from '../../../lib/format.js';
import { LogLines } from './log-lines.js';
import { downloadLog, type LogEntry, type LogPage } from './log-page.js';
import styles from './log-panel.module.css';
import { useLog, type Log } from './use-log.js';

/** Pause in typing after which a search begins, in milliseconds. */
const TYPED_MS = 250;

interface Props {
  readonly runId: string;
  readonly attempt: number;
  /** Whether the attempt has ended. */
  readonly isEnded: boolean;
  /** Whether a worker ever had the attempt. */
  readonly wasHandedOut: boolean;
  readonly search: string;
  readonly onSearch: (search: string) => void;
}

/** The log of an attempt: follows it, searches it, saves it. */
export function LogPanel({ runId, attempt, isEnded, wasHandedOut, search, onSearch }: Props) {
  const api = useApi();
  const [hasTimes, setTimes] = useState(false);
  const [isWrapped, setWrapped] = useState(false);
  const [isSaving, setSaving] = useState(false);
  const [place, setPlace] = useState<LogEntry>();
  const [typed, setTyped] = useState(search);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (text: string): void => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setPlace(undefined);
      onSearch(text);
    }, TYPED_MS);
  };
  const save = async (): Promise<void> => {
    setSaving(true);
    try {
      saveAs(await downloadLog(api, runId, attempt), `run-${runId}-attempt-${attempt}.log`);
    } catch (error) {
      showToast('bad', describeError(error));
    } finally {
      setSaving(false);
    }
  };
  const goTo = (entry: LogEntry): void => {
    clearTimeout(timer.current);
    setPlace(entry);
    setTyped('');
    onSearch('');
  };
  return (
    <section aria-label={`Log of attempt ${attempt}`}>
      <div className={styles.tools}>
        <SearchInput label="Search the log" value={typed} onChange={type} />
        <Checkbox isChecked={hasTimes} onChange={setTimes}>
          Times
        </Checkbox>
        <Checkbox isChecked={isWrapped} onChange={setWrapped}>
          Wrap
        </Checkbox>
        <Button size="small" isBusy={isSaving} onClick={() => void save()}>
          Download
        </Button>
      </div>
      <LogViewer
        key={JSON.stringify([attempt, search, place?.cursor])}
        runId={runId}
        attempt={attempt}
        contains={search}
        place={place}
        isEnded={isEnded}
        wasHandedOut={wasHandedOut}
        hasTimes={hasTimes}
        isWrapped={isWrapped}
        onGoTo={search === '' ? undefined : goTo}
      />
    </section>
  );
}

function saveAs(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // Once the browser has taken it over.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const NO_ENTRIES: readonly LogEntry[] = [];

interface LogViewerProps {
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
function LogViewer(props: LogViewerProps) {
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

function Empty({ contains, isEnded, wasHandedOut, window }: LogViewerProps & { log: Log; window: LogPage }) {
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
