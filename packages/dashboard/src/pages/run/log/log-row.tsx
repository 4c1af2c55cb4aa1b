import { memo } from 'react';
import { classNames } from '../../../lib/class-names.js';
import { formatBytes, formatCount, formatExact } from '../../../lib/format.js';
import styles from './log-lines.module.css';
import type { LogEntry } from './log-page.js';
import { LogText } from './log-text.js';

interface Props {
  readonly entry: LogEntry;
  /** Digits of the greatest line number that is there. */
  readonly digits: number;
  readonly hasTimes: boolean;
  readonly marked: string;
  readonly onGoTo: ((entry: LogEntry) => void) | undefined;
}

/** One line of a log with its number, or a gap with its size. */
export const LogRow = memo(function LogRow({ entry, digits, hasTimes, marked, onGoTo }: Props) {
  if ('gap' in entry) {
    const { lines, bytes } = entry.gap;
    const size = bytes === null ? '' : ` (${formatBytes(bytes)})`;
    return (
      <span className={styles.gap}>
        {formatCount(lines)} {lines === 1 ? 'line' : 'lines'} left out{size}
      </span>
    );
  }
  const { line, t, stream, text } = entry;
  const number = <span style={{ minWidth: `${digits}ch` }}>{line + 1}</span>;
  return (
    <>
      {onGoTo === undefined ? (
        <span className={styles.number}>{number}</span>
      ) : (
        <button
          type="button"
          className={styles.number}
          title="Show this line in the whole log"
          aria-label={`Show line ${line + 1} in the whole log`}
          onClick={() => onGoTo(entry)}
        >
          {number}
        </button>
      )}
      {hasTimes && (
        <time className={styles.time} dateTime={t} title={formatExact(t)}>
          {timeOfDay(t)}
        </time>
      )}
      <span className={classNames(styles.text, stream === 'stderr' && styles.stderr)} data-stream={stream}>
        {stream === 'stderr' && <span className="visually-hidden">stderr: </span>}
        <LogText text={text} marked={marked} />
      </span>
    </>
  );
});

/** `03:04:05.678`, local time. */
function timeOfDay(iso: string): string {
  const date = new Date(iso);
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => padded(part, 2));
  return `${clock.join(':')}.${padded(date.getMilliseconds(), 3)}`;
}

function padded(value: number, length: number): string {
  return String(value).padStart(length, '0');
}
