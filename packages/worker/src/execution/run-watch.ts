import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import { whyNotOurs } from './run-ownership.js';
import { isKeyRefusal } from '../service-api/service-api.js';

const MAX_PAUSE_MS = 8_000;

/** The attempt that is looked after. */
export interface WatchedAttempt {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly tickMs: number;
  readonly logger: Logger;
}

/**
 * Looks at the run once a tick until the service says that the attempt is not this worker's any more, or until the signal
 * is aborted. Only the service's explicit word counts: a 404, an error or no answer says nothing about the run.
 * @returns why the attempt is to be stopped; null when the signal was aborted
 */
export async function watchRun(
  { api, clock, random, workerId, onKeyRefused }: WorkerContext,
  { runId, attempt, tickMs, logger }: WatchedAttempt,
  signal: AbortSignal,
): Promise<string | null> {
  const backoff = new Backoff({ firstMs: tickMs, maxMs: Math.max(tickMs, MAX_PAUSE_MS) }, random);
  let pauseMs = tickMs;
  for (;;) {
    await clock.sleep(pauseMs, signal);
    if (signal.aborted) return null;
    const answer = await api.getRun(runId);
    if (signal.aborted) return null;
    switch (answer.kind) {
      case 'ok': {
        const why = whyNotOurs(answer.value, workerId, attempt);
        if (why !== null) return why;
        backoff.reset();
        pauseMs = tickMs;
        break;
      }
      case 'refused':
        if (isKeyRefusal(answer)) {
          onKeyRefused(answer);
          return null;
        }
        logger.debug({ status: answer.status, detail: answer.detail }, 'no news of the run');
        pauseMs = backoff.nextMs();
        break;
      case 'unreachable':
        logger.debug({ reason: answer.reason }, 'no news of the run');
        pauseMs = backoff.nextMs(answer.retryAfterSeconds);
        break;
    }
  }
}
