import { TERMINAL_STATES } from '@longshore/client/constants';
import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '@longshore/common/backoff';
import type { RunOwnership } from '../service-api/service-api.js';

const MAX_PAUSE_MS = 8_000;

export interface PolledAttempt {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly tickMs: number;
  readonly logger: Logger;
  /** Whether heartbeats tell of lost runs, so that no poll is needed. */
  readonly isTold: () => boolean;
}

/**
 * Polls the run of an older service once per tick until the attempt is lost or the signal is aborted. Only the state in an
 * answer counts: a 404, an error or no answer never stops the attempt.
 * @returns why the attempt is lost; null when the signal was aborted
 */
export async function pollRun(
  { api, clock, random, workerId }: WorkerContext,
  { runId, attempt, tickMs, logger, isTold }: PolledAttempt,
  signal: AbortSignal,
): Promise<string | null> {
  const backoff = new Backoff({ firstMs: tickMs, maxMs: Math.max(tickMs, MAX_PAUSE_MS) }, random);
  let pauseMs = tickMs;
  for (;;) {
    await clock.sleep(pauseMs, signal);
    if (signal.aborted) return null;
    if (isTold()) continue;
    const answer = await api.getRun(runId);
    if (signal.aborted) return null;
    switch (answer.kind) {
      case 'ok': {
        const why = lossReason(answer.value, workerId, attempt);
        if (why !== null) return why;
        backoff.reset();
        pauseMs = tickMs;
        break;
      }
      case 'refused':
        logger.debug({ status: answer.status, detail: answer.detail }, 'could not poll the run');
        pauseMs = backoff.nextMs();
        break;
      case 'unreachable':
        logger.debug({ reason: answer.reason }, 'could not poll the run');
        pauseMs = backoff.nextMs(answer.retryAfterSeconds);
        break;
    }
  }
}

/**
 * @param attempt null: not known yet
 * @returns why the attempt is no longer assigned to this worker, as one sentence; null when it is
 */
export function lossReason(run: RunOwnership, workerId: string, attempt: number | null): string | null {
  if (attempt !== null && run.currentAttempt !== attempt) {
    return `the run is at attempt ${run.currentAttempt}, this was attempt ${attempt}`;
  }
  if (TERMINAL_STATES.has(run.state)) return `the run is ${run.state}`;
  if (run.workerId === null) return 'the run is assigned to no worker';
  if (run.workerId !== workerId) return `the run is assigned to worker '${run.workerId}'`;
  return null;
}
