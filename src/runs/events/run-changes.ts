import { Injectable } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { DataSource } from 'typeorm';
import { untilWoken, type WaitEnds } from '../../common/notifications/until-woken.js';
import { JournalInstrumentation } from '../journal/journal-instrumentation.js';
import { isTerminal } from '../machine/run-state.js';
import { RunRepository } from '../storage/run.repository.js';

/** Pause before a run is read again, because another process may have changed it, in milliseconds. */
const RECHECK_MS = 1_000;

/** A run that requests wait for. */
interface WatchedRun {
  readers: number;
  /** Grows with every change. */
  version: number;
  readonly waiters: Set<() => void>;
}

/** Waits for events of runs: at once for those that this process commits, up to a second for those of others. */
@Injectable()
export class RunChanges {
  readonly #runs = new Map<string, WatchedRun>();
  #subscription: Subscription | undefined;

  constructor(
    private readonly instrumentation: JournalInstrumentation,
    private readonly dataSource: DataSource,
    private readonly repository: RunRepository,
  ) {}

  /**
   * Waits until the run has an event after the index or has ended, the time is over, or the signal aborts.
   * @throws RunNotFound
   */
  async waitForEvents(
    id: string,
    after: number,
    { forMs, signal }: WaitEnds & { forMs: number },
  ): Promise<void> {
    const deadline = performance.now() + forMs;
    const run = this.#watch(id);
    try {
      for (;;) {
        const { version } = run;
        const { state, eventCount } = await this.repository.get(this.dataSource.manager, id);
        const leftMs = deadline - performance.now();
        if (eventCount > after + 1 || isTerminal(state) || leftMs <= 0 || signal.aborted) return;
        if (run.version === version) await wakeOf(run, { signal, forMs: Math.min(leftMs, RECHECK_MS) });
      }
    } finally {
      this.#unwatch(id, run);
    }
  }

  #watch(id: string): WatchedRun {
    const run = this.#runs.get(id) ?? { readers: 0, version: 0, waiters: new Set() };
    run.readers += 1;
    this.#runs.set(id, run);
    this.#subscription ??= this.instrumentation.changed.subscribe((changed) => this.#wake(changed));
    return run;
  }

  #unwatch(id: string, run: WatchedRun): void {
    run.readers -= 1;
    if (run.readers === 0) this.#runs.delete(id);
    if (this.#runs.size > 0) return;
    this.#subscription?.unsubscribe();
    this.#subscription = undefined;
  }

  #wake(id: string): void {
    const run = this.#runs.get(id);
    if (run === undefined) return;
    run.version += 1;
    for (const wake of run.waiters) wake();
  }
}

/** Resolves at the next change of the run. */
async function wakeOf({ waiters }: WatchedRun, ends: WaitEnds): Promise<void> {
  await untilWoken<true>(ends, (wake) => {
    const waiter = (): void => wake(true);
    waiters.add(waiter);
    return () => void waiters.delete(waiter);
  });
}
