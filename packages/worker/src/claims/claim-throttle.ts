import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '../process/clock.js';
import type { RunEnd } from '../execution/run-end.js';

/** Consecutive failures of this machine after which claims pause. */
const MAX_FAILURES = 3;

const PAUSE = { firstMs: 1000, maxMs: 10_000 };

/**
 * Pauses claims while this machine fails to start containers, so that it does not fail the whole queue in a minute. Runs
 * that would fail on every machine do not count.
 */
export class ClaimThrottle {
  private readonly backoff: Backoff;
  private failures = 0;
  private untilMs = 0;

  constructor(
    private readonly clock: Clock,
    random: () => number,
  ) {
    this.backoff = new Backoff(PAUSE, random);
  }

  /** While the machine fails, each claimed run is a trial, and the next one has to wait. */
  recordClaim(): void {
    if (this.failures >= MAX_FAILURES) this.pause();
  }

  recordEnd(end: RunEnd): void {
    if (end === 'machine-failed') {
      this.failures += 1;
      if (this.failures === MAX_FAILURES) this.pause();
    } else if (end === 'completed' || end === 'failed') {
      this.failures = 0;
      this.untilMs = 0;
      this.backoff.reset();
    }
  }

  /** Remaining time without claims, in milliseconds. */
  remainingMs(): number {
    return Math.max(0, this.untilMs - this.clock.nowMs());
  }

  private pause(): void {
    this.untilMs = this.clock.nowMs() + this.backoff.nextMs();
  }
}
