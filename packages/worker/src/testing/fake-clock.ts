import { setImmediate as letOthersRun } from 'node:timers/promises';
import type { Clock } from '../clock.js';

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

const START_MS = Date.parse('2026-01-01T00:00:00Z');

const REAL_LIMIT_MS = 60_000;

/** Time that stands still until a test moves it, and never moves while tracked real work is under way. */
export class FakeClock implements Clock {
  private underWay = 0;
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

  /** Holds this clock's time until the promise has settled. */
  async track<T>(realWork: Promise<T>): Promise<T> {
    this.underWay += 1;
    try {
      return await realWork;
    } finally {
      this.underWay -= 1;
    }
  }

  /** Lets everything happen that needs no time. */
  async settle(): Promise<void> {
    // Work that has just ended may begin the next in the turns that follow.
    for (let quiet = 0; quiet < 5; quiet = this.underWay > 0 ? 0 : quiet + 1) await letOthersRun();
  }

  /** Lets time pass sleeper by sleeper, so that each sees the time at which it wanted to wake. */
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

  /**
   * Waits until something has become true.
   * @param passMs how much of this clock's time passes between two looks
   */
  async until(what: string, isTrue: () => boolean, passMs = 0): Promise<void> {
    const deadline = performance.now() + REAL_LIMIT_MS;
    while (!isTrue()) {
      if (performance.now() > deadline) throw new Error(`never came true: ${what}`);
      await (passMs > 0 ? this.pass(passMs) : this.settle());
    }
  }

  private next(): Sleeper | null {
    return this.sleepers.toSorted((a, b) => a.atMs - b.atMs)[0] ?? null;
  }
}
