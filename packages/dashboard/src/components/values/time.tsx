import { useNow } from '../../lib/clock.js';
import { formatAge, formatDuration, formatExact } from '../../lib/format.js';
import styles from './time.module.css';

interface Props {
  /** ISO 8601; null when it has not happened. */
  readonly at: string | null | undefined;
  /** What to show when it has not happened. */
  readonly absent?: string;
}

/** How long ago something was, kept up to date; the exact time is in its tip. */
export function Time({ at, absent = '–' }: Props) {
  const now = useNow();
  if (at === null || at === undefined) return <span className="muted">{absent}</span>;
  return (
    <time className={styles.time} dateTime={at} title={formatExact(at)}>
      {formatAge(now - Date.parse(at))}
    </time>
  );
}

interface DurationProps {
  /** ISO 8601; null when it has not begun. */
  readonly from: string | null | undefined;
  /** ISO 8601; null while it lasts: then it counts on. */
  readonly to: string | null | undefined;
}

/** How long something took, or has been taking so far. */
export function Duration({ from, to }: DurationProps) {
  if (from === null || from === undefined) return <span className="muted">–</span>;
  if (to === null || to === undefined) return <Running from={from} />;
  return <span className={styles.time}>{formatDuration(Date.parse(to) - Date.parse(from))}</span>;
}

function Running({ from }: { readonly from: string }) {
  const now = useNow();
  const seconds = Math.floor((now - Date.parse(from)) / 1000);
  return <span className={styles.time}>{formatDuration(Math.max(0, seconds) * 1000)}</span>;
}
