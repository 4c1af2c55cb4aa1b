import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  HeldRunRepository,
  type AssignedWorker,
  type AssignedRun,
} from '../../runs/storage/held-run.repository.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { GracePeriod } from './grace-period.js';

export const LOSS_REASONS = ['silent', 'unreported'] as const;

export interface Loss {
  readonly runId: string;
  readonly workerId: string;
  readonly attempt: number;
  readonly reason: (typeof LOSS_REASONS)[number];
  /** Null: the pool does not know the worker. */
  readonly lastHeartbeatAt: Date | null;
  /** Milliseconds since the worker timeout; null: unknown. */
  readonly overdueMs: number | null;
}

export const WORKERS_PER_PAGE = 1000;
export const RUNS_PER_PAGE = 1000;

/** Finds runs in execution whose worker is stale or does not report them. */
@Injectable()
export class LostRunSearch {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: HeldRunRepository,
    private readonly pool: WorkerPool,
    private readonly grace: GracePeriod,
  ) {}

  /** Reads the workers with assigned runs in pages and yields the lost runs of each; none during the grace period. */
  async *search(): AsyncGenerator<readonly Loss[], void, void> {
    for (let after = ''; ;) {
      const from = after;
      const askedAt = this.grace.clock.now();
      const { workers: assigned, now } = await this.runs.listAssignedWorkers(
        this.dataSource,
        from,
        this.grace.timeoutMs,
        WORKERS_PER_PAGE,
      );
      this.grace.databaseAnswered(now, askedAt);
      const last = assigned.at(-1);
      // During the grace period the first page only shows that the database is available.
      if (!last || !this.grace.isOver()) return;
      yield* this.#lostRunsOf(assigned, now);
      if (assigned.length < WORKERS_PER_PAGE) return;
      after = last.workerId;
    }
  }

  /** @param now the database's time before the pool is asked */
  async *#lostRunsOf(
    assigned: readonly AssignedWorker[],
    now: Date,
  ): AsyncGenerator<readonly Loss[], void, void> {
    const silent = await this.pool.findSilent(assigned.map(({ workerId }) => workerId));
    // Checked after the answer: this process may have been paused until now.
    if (!this.grace.isOver()) return;
    const lost = new Map(silent.map(({ id, lastHeartbeatAt }) => [id, lastHeartbeatAt]));
    const known = silent.filter(({ lastHeartbeatAt }) => lastHeartbeatAt !== null);
    if (known.length === 0 && !assigned.some(({ isOverdue }) => isOverdue)) return;
    let after: AssignedRun | undefined;
    do {
      const page: readonly AssignedRun[] = await this.runs.listAssignedRuns(this.dataSource, {
        first: assigned[0]?.workerId ?? '',
        last: assigned.at(-1)?.workerId ?? '',
        silent: known.map(({ id }) => id),
        // A run that was assigned later belongs to a worker that has come back.
        silentBefore: now,
        // A worker that has claimed without any heartbeat has this long to send one.
        heldBefore: new Date(now.getTime() - this.grace.timeoutMs),
        after,
        limit: RUNS_PER_PAGE,
      });
      const found = await this.#lostAmong(page, lost, now);
      if (!this.grace.isOver()) return;
      if (found.length > 0) yield found;
      after = page.length < RUNS_PER_PAGE ? undefined : page.at(-1);
    } while (after);
  }

  /** @param lost last heartbeats of the stale workers */
  async #lostAmong(
    page: readonly AssignedRun[],
    lost: ReadonlyMap<string, Date | null>,
    now: Date,
  ): Promise<readonly Loss[]> {
    const unreported = await this.#unreportedAmong(page.filter(({ workerId }) => !lost.has(workerId)));
    return page.flatMap(({ id: runId, workerId, attempt }): Loss[] => {
      const run = { runId, workerId, attempt };
      const silentSince = lost.get(workerId);
      if (silentSince !== undefined) {
        const overdueMs = silentSince && now.getTime() - silentSince.getTime() - this.grace.timeoutMs;
        return [{ ...run, reason: 'silent', lastHeartbeatAt: silentSince, overdueMs }];
      }
      const lastHeartbeatAt = unreported.get(runId);
      if (lastHeartbeatAt === undefined) return [];
      return [{ ...run, reason: 'unreported', lastHeartbeatAt, overdueMs: null }];
    });
  }

  /** Runs that their worker does not report, with its last heartbeat. */
  async #unreportedAmong(assigned: readonly AssignedRun[]): Promise<ReadonlyMap<string, Date | null>> {
    if (assigned.length === 0) return new Map();
    const unreported = await this.pool.findUnreported(
      assigned.map(({ id: runId, workerId }) => ({ runId, workerId })),
    );
    if (unreported.length === 0) return new Map();
    const workers = await this.pool.findAll([...new Set(unreported.map(({ workerId }) => workerId))]);
    return new Map(
      unreported.map(({ runId, workerId }) => [runId, workers.get(workerId)?.lastHeartbeatAt ?? null]),
    );
  }
}
