import { noteServiceTime } from '../lib/clock.js';
import { Store } from '../lib/store.js';
import { Unreachable } from './answers.js';

/** Whether the service is unreachable, as far as the last request can tell. */
export const serviceAway = new Store(false);

const AWAY_STATUSES = new Set([502, 504]);

/**
 * `fetch` that notes whether the service is there and what time it has.
 * @throws Unreachable when there is no answer, or one of a proxy or service that says "not now"
 */
export async function serviceFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(input, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    serviceAway.set(true);
    throw new Unreachable({ cause: error });
  }
  if (isAway(response)) {
    serviceAway.set(true);
    throw new Unreachable();
  }
  serviceAway.set(false);
  noteServiceTime(response.headers.get('Date'));
  return response;
}

/** A 503 without Retry-After is about one feature that is switched off, not about the service. */
function isAway({ status, headers }: Response): boolean {
  return AWAY_STATUSES.has(status) || (status === 503 && headers.has('Retry-After'));
}
