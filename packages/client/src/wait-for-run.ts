import type { LongshoreClient, Schemas } from './client.js';

/** How long the service holds a request, in seconds: less than the timeouts of usual proxies. */
const WAIT_S = 25;
/** Time for the answer beyond that. */
const ANSWER_MS = 10_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/** What to wait for, and for how long. */
export interface RunWaitOptions {
  /** `ended` (the default), or `started`, which is also true of a run that has ended. */
  readonly until?: 'ended' | 'started';
  /** Ends waiting with its reason. */
  readonly signal?: AbortSignal;
  /** Milliseconds without an answer of the service before waiting fails; 300,000 unless given. */
  readonly patienceMs?: number;
}

/** The service has refused a request: the run is unknown, or the key is not accepted. */
export class RunWaitRefused extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

/**
 * Waits until a run has ended or started, with requests that the service holds. Goes on after lost answers, 429 and errors
 * of the service, so that a restart ends no wait.
 * @returns the run, without its events
 * @throws RunWaitRefused; the reason of the last failure when the service does not answer for too long; the signal's reason
 */
export async function waitForRun(
  client: LongshoreClient,
  id: string,
  { until = 'ended', signal, patienceMs = 300_000 }: RunWaitOptions = {},
): Promise<Schemas['OpRun']> {
  const params = { path: { id }, query: { include_events: false, wait: WAIT_S, until } };
  let answeredAt = Date.now();
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    let failure: unknown;
    try {
      const signals = [AbortSignal.timeout(WAIT_S * 1000 + ANSWER_MS), ...(signal ? [signal] : [])];
      const { data, error, response } = await client.GET('/runs/{id}', {
        params,
        signal: AbortSignal.any(signals),
        redirect: 'manual',
      });
      if (data !== undefined) {
        if (isSo(data.state, until)) return data;
        answeredAt = Date.now();
        pauseMs = FIRST_PAUSE_MS / 2;
        continue;
      }
      failure = new RunWaitRefused(response.status, error?.detail ?? `HTTP ${response.status}`);
      if (response.status < 500 && response.status !== 429 && response.status !== 408) throw failure;
    } catch (error) {
      signal?.throwIfAborted();
      if (error === failure) throw error;
      failure = error;
    }
    if (Date.now() + pauseMs - answeredAt > patienceMs) throw failure;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    signal?.throwIfAborted();
  }
}

function isSo(state: Schemas['RunState'], until: 'ended' | 'started'): boolean {
  return state !== 'PENDING' && state !== 'ASSIGNED' && (state !== 'RUNNING' || until === 'started');
}
