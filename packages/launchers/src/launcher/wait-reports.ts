import { createHash } from 'node:crypto';
import type { Clock } from '@longshore/worker/process/clock';
import type { TimelineEntry } from '@longshore/worker/service-api/service-api';

/** Minimum time between two reports. It grows, so that a job that waits for days does not use up the events of its attempt. */
const GAP = { firstMs: 10_000, maxMs: 300_000 };

/** Sends a report. @param key part of its idempotency key, the same when another process reports the same */
type Send = (reason: string, key: string) => void;

/** Reports why a job waits in the engine, and again when the reason changes, with pauses that grow from ten seconds to five minutes. */
export class WaitReports {
  /** Null: nothing is reported yet. */
  private reported: string | null = null;
  private reason = '';
  private nextAtMs = 0;
  private gapMs = GAP.firstMs;
  private isBusy = false;
  /** How often each reason was reported. */
  private readonly counts = new Map<string, number>();

  /** @param signal aborted when the job waits no longer */
  constructor(
    private readonly clock: Clock,
    private readonly send: Send,
    private readonly signal: AbortSignal,
  ) {}

  /** Goes on after an earlier process. @param timeline of the attempt, oldest first */
  resume(timeline: readonly TimelineEntry[]): void {
    for (const { type, payload } of timeline) {
      if (type !== 'SUBMITTED') continue;
      const reason = payload?.['reason'];
      this.reported = typeof reason === 'string' ? reason : '';
      this.count(this.reported);
    }
  }

  /** @param reason as it is shown; empty: none. The first one is reported at once. */
  update(reason: string): void {
    this.reason = reason;
    if (!this.isBusy) void this.report();
  }

  private async report(): Promise<void> {
    this.isBusy = true;
    while (this.reason !== this.reported && !this.signal.aborted) {
      const leftMs = this.nextAtMs - this.clock.nowMs();
      if (leftMs > 0) {
        await this.clock.sleep(leftMs, this.signal);
        continue;
      }
      const { reason } = this;
      const count = this.count(reason);
      this.reported = reason;
      this.nextAtMs = this.clock.nowMs() + this.gapMs;
      this.gapMs = Math.min(2 * this.gapMs, GAP.maxMs);
      const digest = createHash('sha256').update(reason).digest('hex').slice(0, 16);
      this.send(reason, `${digest}:${count}`);
    }
    this.isBusy = false;
  }

  private count(reason: string): number {
    const count = (this.counts.get(reason) ?? 0) + 1;
    this.counts.set(reason, count);
    return count;
  }
}
