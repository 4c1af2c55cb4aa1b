import { Backoff } from '../backoff.js';
import type { Clock } from '../clock.js';
import type { RunEnd } from '../execution/run-end.js';

/** Troubles in a row from which on claims are held back. */
const PATIENCE = 3;

const PAUSE = { firstMs: 1000, maxMs: 10_000 };

/**
 * Holds claims back while this machine is in trouble: one on which nothing can be started must not fail the whole queue
 * in a minute. A run that would fail anywhere says nothing about the machine: it neither counts nor clears the count.
 */
export class ClaimThrottle {
  private readonly backoff: Backoff;
  private troubles = 0;
  private untilMs = 0;

  constructor(
    private readonly clock: Clock,
    random: () => number,
  ) {
    this.backoff = new Backoff(PAUSE, random);
  }

  /** Takes note of a claimed run: while there is trouble, each is a trial, and the next one has to wait. */
  noteClaim(): void {
    if (this.troubles >= PATIENCE) this.begin();
  }

  /** Takes note of how a run ended here. */
  noteEnd(end: RunEnd): void {
    switch (end) {
      case 'machine-failed':
        this.troubles += 1;
        if (this.troubles === PATIENCE) this.begin();
        break;
      case 'completed':
      case 'failed':
        this.troubles = 0;
        this.untilMs = 0;
        this.backoff.reset();
        break;
      case 'faulty':
      case 'gone':
      case 'unreported':
        break;
    }
  }

  /** How long no run is to be claimed from now on, in milliseconds; 0 when one may be. */
  leftMs(): number {
    return Math.max(0, this.untilMs - this.clock.nowMs());
  }

  private begin(): void {
    this.untilMs = this.clock.nowMs() + this.backoff.nextMs();
  }
}
