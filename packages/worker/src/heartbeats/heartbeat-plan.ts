/** How heartbeats are paced, in whole milliseconds: Node takes no others for a time limit. */
export interface HeartbeatPlan {
  /** Pause after an answer. */
  readonly intervalMs: number;
  /** Time limit of one request. */
  readonly timeLimitMs: number;
  /** Longest pause after a failure: together with the time limit still a third of the worker timeout. */
  readonly maxPauseMs: number;
}

const MAX_TIME_LIMIT_MS = 10_000;
const LEAST_MS = 10;

/**
 * Paces heartbeats so that two of three may get lost: pause and time limit together are at most a third of the time
 * after which the service gives a silent worker up.
 */
export function planHeartbeats(tickSeconds: number, workerTimeoutSeconds: number): HeartbeatPlan {
  const thirdMs = (workerTimeoutSeconds * 1000) / 3;
  const intervalMs = whole(Math.min(tickSeconds * 1000, thirdMs / 2));
  const timeLimitMs = whole(Math.min(MAX_TIME_LIMIT_MS, thirdMs - intervalMs));
  return { intervalMs, timeLimitMs, maxPauseMs: Math.max(intervalMs, whole(thirdMs - timeLimitMs)) };
}

function whole(ms: number): number {
  return Math.max(LEAST_MS, Math.floor(ms));
}
