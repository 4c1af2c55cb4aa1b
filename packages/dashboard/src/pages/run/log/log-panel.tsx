import { useEffect, useRef, useState } from 'react';
import { describeError } from '../../../api/api-error.js';
import { useApi } from '../../../api/use-api.js';
import { Button } from '../../../components/controls/button.js';
import { Checkbox } from '../../../components/controls/inputs.js';
import { SearchInput } from '../../../components/table/search-input.js';
import { showToast } from '../../../components/feedback/toasts.js';
import { downloadLog, type LogEntry } from './log-page.js';
import styles from './log-panel.module.css';
import { LogViewer } from './log-viewer.js';

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
