import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Clock } from '../process/clock.js';

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

const START_MS = Date.parse('2026-01-01T00:00:00Z');

const REAL_LIMIT_MS = 60_000;

/** A clock that a test advances. It waits for tracked real work first. */
export class FakeClock implements Clock {
  private pending = 0;
  private now = 0;
  private sleepers: Sleeper[] = [];

  nowMs(): number {
    return this.now;
  }

  epochMs(): number {
    return START_MS + this.now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const finish = () => {
        this.sleepers = this.sleepers.filter((other) => other !== sleeper);
        signal?.removeEventListener('abort', finish);
        resolve();
      };
      const sleeper = { atMs: this.now + Math.max(0, ms), wake: finish };
      this.sleepers.push(sleeper);
      signal?.addEventListener('abort', finish, { once: true });
    });
  }

  /** Stops the clock until the promise is settled. */
  async track<T>(realWork: Promise<T>): Promise<T> {
    this.pending += 1;
    try {
      return await realWork;
    } finally {
      this.pending -= 1;
    }
  }

  /** Waits until only sleepers are left. */
  async settle(): Promise<void> {
    // The continuation of completed work may start more work.
    for (let quiet = 0; quiet < 5; quiet = this.pending > 0 ? 0 : quiet + 1) await yieldToEventLoop();
  }

  /** Advances the time from sleeper to sleeper, so that each wakes at its own time. */
  async pass(ms: number): Promise<void> {
    const endMs = this.now + ms;
    await this.settle();
    for (let next = this.next(); next !== null && next.atMs <= endMs; next = this.next()) {
      this.now = next.atMs;
      next.wake();
      await this.settle();
    }
    this.now = endMs;
  }

  /** @param passMs by how much the time advances between two checks */
  async until(what: string, isTrue: () => boolean, passMs = 0): Promise<void> {
    const deadline = performance.now() + REAL_LIMIT_MS;
    while (!isTrue()) {
      if (performance.now() > deadline) throw new Error(`timed out waiting until ${what}`);
      await (passMs > 0 ? this.pass(passMs) : this.settle());
    }
  }

  private next(): Sleeper | null {
    return this.sleepers.toSorted((a, b) => a.atMs - b.atMs)[0] ?? null;
  }
}
