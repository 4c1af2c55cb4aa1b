import { withTimeout } from '@longshore/common/timeout';
import { SharedReading } from '../shared-reading.js';

/** How long a scrape waits, in milliseconds: well below the timeout of a scraper. */
const WAIT_MS = 1_000;

/**
 * A database query for metrics: concurrent scrapes share one query, and no scrape waits long for it.
 * @param onFailure called once for each query that fails
 * @returns reads the result; null when the query fails or takes too long
 */
export function scrapedReading<T>(
  read: () => Promise<T>,
  onFailure: () => void = () => undefined,
  waitMs = WAIT_MS,
): () => Promise<T | null> {
  const reading = new SharedReading(() =>
    read().catch(() => {
      onFailure();
      return null;
    }),
  );
  return () => withTimeout(waitMs, reading.newest(), null);
}
