import { withTimeout } from '@longshore/common/timeout';
import { StoreUnavailable } from './stores.errors.js';

/** For how long a request waits for a store, in milliseconds. */
const PATIENCE_MS = 5_000;
const LATE = Symbol('late');

/** What is asked of a store. The asking itself goes on. @throws StoreUnavailable when it does not answer in time */
export async function inTime<T>(asked: Promise<T>): Promise<T> {
  const answered = await withTimeout(PATIENCE_MS, asked, LATE);
  if (answered === LATE) throw new StoreUnavailable('it did not answer in time');
  return answered;
}
