import { Link } from 'wouter';
import { useNow } from '../../lib/clock.js';
import { formatCount, formatDuration, formatExact } from '../../lib/format.js';
import styles from './overview-page.module.css';

interface Props {
  /** ISO 8601; null when no run is pending. */
  readonly since: string | null;
  readonly pending: number;
}

/** How long the run that has waited longest has waited, leading to it. */
export function OldestPending({ since, pending }: Props) {
  const now = useNow();
  if (since === null) {
    return (
      <>
        <p className={styles.figure}>–</p>
        <p className={styles.hint}>No run is pending.</p>
      </>
    );
  }
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  // The list is newest first: up to the second of the oldest one it begins with it.
  const href = `/runs?state=PENDING&to=${encodeURIComponent(`${since.slice(0, 19)}Z`)}`;
  return (
    <>
      <p>
        <Link href={href} className={styles.figure} title={`Created ${formatExact(since)}`}>
          {formatDuration(seconds * 1000)}
        </Link>
      </p>
      <p className={styles.hint}>
        <Link href="/runs?state=PENDING">{formatCount(pending)} pending</Link>
      </p>
    </>
  );
}
