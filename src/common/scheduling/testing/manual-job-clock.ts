import { vi } from 'vitest';
import { DataSource } from 'typeorm';
import { JobClock } from '../job-clock.js';

/** A clock that a test sets, together with vitest's fake `setTimeout`. */
export class ManualJobClock extends JobClock {
  /** What `random()` returns. */
  chance = 0;
  /** What `databaseNow()` returns. */
  database = new Date('2026-01-01T00:00:00Z');
  #now = 1_000;

  constructor() {
    super(new DataSource({ type: 'postgres' }));
  }

  override now(): number {
    return this.#now;
  }

  override databaseNow(): Promise<Date> {
    return Promise.resolve(this.database);
  }

  override random(): number {
    return this.chance;
  }

  /** Lets time pass, millisecond by millisecond, and what follows from it happen. */
  async advance(ms: number): Promise<void> {
    await settle();
    for (let i = 0; i < ms; i += 1) {
      this.#now += 1;
      vi.advanceTimersByTime(1);
      await settle();
    }
  }
}

/** Lets promises that are ready continue. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i += 1) await Promise.resolve();
}
