import { useNow } from '../../lib/clock.js';
import { formatAge, formatExact } from '../../lib/format.js';
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
