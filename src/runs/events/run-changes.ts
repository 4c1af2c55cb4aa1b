import { AsyncResource } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { DataSource } from 'typeorm';
import { untilWoken, type WaitEnds } from '../../common/notifications/until-woken.js';
import { rows } from '../../database/sql/sql.js';
import { JournalInstrumentation } from '../journal/journal-instrumentation.js';
import { isTerminal, type RunState } from '../machine/run-state.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';

/** Interval between polls for changes by other processes, in milliseconds. */
const RECHECK_MS = 500;

const POSITIONS = `select id, state, event_count as "eventCount" from runs where id = any($1::uuid[])`;

/** What changes with every event and at the end of a run. */
interface Position {
  readonly state: RunState;
  readonly eventCount: number;
}

interface StoredPosition extends Position {
  readonly id: string;
}

/** A run that requests wait for. */
interface WatchedRun {
  readers: number;
  /** As it was read last. */
  seen: Position | undefined;
  /** Grows with every change. */
  version: number;
  readonly waiters: Set<() => void>;
}

/**
 * Waits for events of runs. Those that this process commits wake at once; for those of others, one query reads all runs that
 * requests wait for, twice a second.
 */
@Injectable()
export class RunChanges {
  readonly #runs = new Map<string, WatchedRun>();
  #subscription: Subscription | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;
  /** The timer must not run in the trace of the request that starts it. */
  readonly #scope = new AsyncResource('RunChanges');

  constructor(
    private readonly instrumentation: JournalInstrumentation,
    private readonly dataSource: DataSource,
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
        const { state, eventCount } = await this.#get(id);
        // Another request may have seen less.
        if (isBehind(run, { state, eventCount })) this.#wake(id);
        run.seen = { state, eventCount };
        const leftMs = deadline - performance.now();
        if (eventCount > after + 1 || isTerminal(state) || leftMs <= 0 || signal.aborted) return;
        if (run.version === version) await wakeOf(run, { signal, forMs: leftMs });
      }
    } finally {
      this.#unwatch(id, run);
    }
  }

  async #get(id: string): Promise<Position> {
    const [stored] = isRunId(id) ? await rows<StoredPosition>(this.dataSource, POSITIONS, [[id]]) : [];
    if (stored === undefined) throw new RunNotFound(id);
    return stored;
  }

  #watch(id: string): WatchedRun {
    const run = this.#runs.get(id) ?? { readers: 0, seen: undefined, version: 0, waiters: new Set() };
    run.readers += 1;
    this.#runs.set(id, run);
    this.#subscription ??= this.instrumentation.changed.subscribe((changed) => this.#wake(changed));
    this.#timer ??= this.#scope.runInAsyncScope(() => setInterval(() => void this.#recheck(), RECHECK_MS));
    return run;
  }

  #unwatch(id: string, run: WatchedRun): void {
    run.readers -= 1;
    if (run.readers === 0) this.#runs.delete(id);
    if (this.#runs.size > 0) return;
    this.#subscription?.unsubscribe();
    this.#subscription = undefined;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Wakes those who wait for runs that are not as they were read last. */
  async #recheck(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      const ids = [...this.#runs.keys()].filter(isRunId);
      for (const stored of await rows<StoredPosition>(this.dataSource, POSITIONS, [ids])) {
        const run = this.#runs.get(stored.id);
        if (run !== undefined && isBehind(run, stored)) this.#wake(stored.id);
      }
    } catch {
      // The database is unavailable; the next look is soon.
    } finally {
      this.#isReading = false;
    }
  }

  #wake(id: string): void {
    const run = this.#runs.get(id);
    if (run === undefined) return;
    run.version += 1;
    for (const wake of run.waiters) wake();
  }
}

/** Whether the run has changed since it was read last. */
function isBehind({ seen }: WatchedRun, { state, eventCount }: Position): boolean {
  return seen !== undefined && (seen.state !== state || seen.eventCount !== eventCount);
}

/** Resolves at the next change of the run. */
async function wakeOf({ waiters }: WatchedRun, ends: WaitEnds): Promise<void> {
  await untilWoken<true>(ends, (wake) => {
    const waiter = (): void => wake(true);
    waiters.add(waiter);
    return () => void waiters.delete(waiter);
  });
}
