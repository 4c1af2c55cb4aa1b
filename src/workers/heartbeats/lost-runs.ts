import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { untilWoken, type WaitEnds } from '../../common/notifications/until-woken.js';
import { Notifications } from '../../database/notifications.js';
import { FREE_WORKERS_CHANNEL } from '../../runs/queue/queue-notifications.js';
import { HeldRunRepository, type LostRun } from '../../runs/storage/held-run.repository.js';
import { LostRunQueries, type Report } from './lost-run-queries.js';

/** Interval between queries while notifications may be missing, in milliseconds. */
const RECHECK_MS = 500;

/**
 * Finds the runs that workers report and do not hold any more. The commit that takes a run from a worker notifies every process.
 */
@Injectable()
export class LostRuns implements OnModuleDestroy {
  readonly #queries: LostRunQueries;
  /** Called when the worker may have lost a run, by its id. */
  readonly #waiters = new Map<string, Set<() => void>>();
  #unsubscribe: (() => void) | undefined;

  constructor(
    heldRuns: HeldRunRepository,
    dataSource: DataSource,
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
  ) {
    this.#queries = new LostRunQueries((reports) => heldRuns.findLost(dataSource, reports));
  }

  /** Those of the runs that are lost now; null: not known, as the database is unavailable or slow. */
  async find(report: Report, signal: AbortSignal): Promise<readonly LostRun[] | null> {
    return report.length === 0 ? [] : await this.#queries.find(report, signal);
  }

  /** Waits until the worker loses one of the runs. After the timeout or an abort, what the last look has found. */
  async wait(
    workerId: string,
    report: Report,
    { signal, forMs }: Required<WaitEnds>,
  ): Promise<readonly LostRun[] | null> {
    const endsAt = performance.now() + forMs;
    this.#listen();
    const losses = this.#watch(workerId);
    try {
      for (;;) {
        losses.reset();
        const lost = await this.find(report, signal);
        if (lost !== null && lost.length > 0) return lost;
        const leftMs = endsAt - performance.now();
        if (leftMs <= 0 || signal.aborted) return lost;
        const isCertain = lost !== null && this.notifications.isListening(FREE_WORKERS_CHANNEL);
        const isWoken = await losses.next({
          signal,
          forMs: isCertain ? leftMs : Math.min(leftMs, RECHECK_MS),
        });
        // The next heartbeat queries again.
        if (!isWoken && (signal.aborted || performance.now() >= endsAt)) return lost;
      }
    } finally {
      losses.close();
    }
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }

  /** Remembers from `reset` on that the worker may have lost a run. */
  #watch(workerId: string) {
    const waiters = this.#waiters.get(workerId) ?? new Set();
    this.#waiters.set(workerId, waiters);
    let isDue = false;
    let wake: ((value: true) => void) | undefined;
    const onLoss = (): void => {
      isDue = true;
      wake?.(true);
    };
    waiters.add(onLoss);
    return {
      reset: () => void (isDue = false),
      next: async (ends: WaitEnds): Promise<boolean> =>
        isDue ||
        (await untilWoken<true>(ends, (value) => {
          wake = value;
          return () => void (wake = undefined);
        })) === true,
      close: () => {
        waiters.delete(onLoss);
        if (waiters.size === 0 && this.#waiters.get(workerId) === waiters) this.#waiters.delete(workerId);
      },
    };
  }

  #listen(): void {
    this.#unsubscribe ??= this.notifications.subscribe(FREE_WORKERS_CHANNEL, (workerId) => {
      // Null: notifications may have been lost.
      const named = workerId === null ? this.#waiters.values() : [this.#waiters.get(workerId) ?? []];
      for (const waiters of named) for (const onLoss of waiters) onLoss();
    });
  }
}
