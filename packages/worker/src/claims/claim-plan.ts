/** How one claim is asked. */
export interface ClaimPlan {
  /** Whole seconds that the service may hold an empty answer back; 0 for none. */
  readonly waitSeconds: number;
  /** Time limit of the request, in whole milliseconds: well above the wait. */
  readonly timeLimitMs: number;
}

/** A claim that is answered at once, for a service that knows no other. */
export const PLAIN_CLAIM: ClaimPlan = { waitSeconds: 0, timeLimitMs: 15_000 };

/** Below what proxies commonly take for a dead connection. */
const MAX_WAIT_SECONDS = 20;

const LEAST_MARGIN_MS = 2_000;

/**
 * Plans a waiting claim. Wait and margin together stay below the time after which the service takes a run back whose
 * worker never heard of it, so that a claim whose answer was lost is asked again before that.
 */
export function planClaim(workerTimeoutSeconds: number): ClaimPlan {
  const third = workerTimeoutSeconds / 3;
  const waitSeconds = Math.max(1, Math.floor(Math.min(MAX_WAIT_SECONDS, third)));
  const marginMs = Math.min(PLAIN_CLAIM.timeLimitMs, Math.max(LEAST_MARGIN_MS, Math.floor(third * 1000)));
  return { waitSeconds, timeLimitMs: waitSeconds * 1000 + marginMs };
}
