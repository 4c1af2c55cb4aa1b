import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  LostRunRepository,
  type Holder,
  type HolderPage,
  type RunInHands,
} from '../../runs/storage/lost-run.repository.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { ReaperClock } from './reaper-clock.js';
import { ReaperGrace } from './reaper-grace.js';

/** Why a run is taken from its worker. */
export const LOSS_REASONS = ['silent', 'unreported'] as const;
export type LossReason = (typeof LOSS_REASONS)[number];

/** A run whose worker is lost, or does not know of it. */
export interface LostRun {
  readonly runId: string;
  readonly workerId: string;
  readonly attempt: number;
  readonly reason: LossReason;
  /** Null: the pool does not know the worker. */
  readonly lastHeartbeatAt: Date | null;
  /** For how long the reaper could have known, in milliseconds; null when it cannot be told. */
  readonly overdueMs: number | null;
}

/** Holders looked at by one statement. */
export const HOLDERS_PER_PAGE = 1000;
/** Runs looked at by one statement. */
export const RUNS_PER_PAGE = 1000;

/** Finds the runs in execution that nobody executes any more, as far as the workers' heartbeats tell. */
@Injectable()
export class LostRunSearch {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: LostRunRepository,
    private readonly pool: WorkerPool,
    private readonly grace: ReaperGrace,
    private readonly clock: ReaperClock,
  ) {}

  /**
   * Goes once through all workers that hold runs, in bounded pages, and yields what is lost of each page. While the
   * grace lasts nobody is judged.
   * @throws what the database says
   */
  async *search(): AsyncGenerator<readonly LostRun[], void, void> {
    for (let after = ''; ;) {
      const askedAt = this.clock.now().steady;
      const { holders, now } = await this.#holdersAfter(after);
      this.grace.databaseAnswered(now, askedAt);
      const last = holders.at(-1);
      // While nobody may be judged, the first page only tells that the database is there.
      if (!last || !this.grace.isOver()) return;
      yield* this.#lostOf(holders, now);
      if (holders.length < HOLDERS_PER_PAGE) return;
      after = last.workerId;
    }
  }

  #holdersAfter(after: string): Promise<HolderPage> {
    return this.runs.listHolders(this.dataSource, after, this.grace.timeoutMs, HOLDERS_PER_PAGE);
  }

  /** @param now the database's time before they are judged */
  async *#lostOf(holders: readonly Holder[], now: Date): AsyncGenerator<readonly LostRun[], void, void> {
    const silent = await this.pool.findSilent(holders.map(({ workerId }) => workerId));
    // Asked after the pool has answered: this process may have been paused until just now.
    if (!this.grace.isOver()) return;
    const lost = new Map(silent.map(({ id, lastHeartbeatAt }) => [id, lastHeartbeatAt]));
    const known = silent.filter(({ lastHeartbeatAt }) => lastHeartbeatAt !== null);
    if (known.length === 0 && !holders.some(({ holdsLong }) => holdsLong)) return;
    let after: RunInHands | undefined;
    do {
      const page: readonly RunInHands[] = await this.runs.listHeld(this.dataSource, {
        first: holders[0]?.workerId ?? '',
        last: holders.at(-1)?.workerId ?? '',
        silent: known.map(({ id }) => id),
        // A run that was assigned after the workers were judged belongs to one that has come back.
        silentBefore: now,
        // Whoever has taken up a run without ever having reported has this long to begin.
        heldBefore: new Date(now.getTime() - this.grace.timeoutMs),
        after,
        limit: RUNS_PER_PAGE,
      });
      const found = await this.#judge(page, lost, now);
      if (!this.grace.isOver()) return;
      if (found.length > 0) yield found;
      after = page.length < RUNS_PER_PAGE ? undefined : page.at(-1);
    } while (after);
  }

  /** Those of the runs that are lost: in the hands of a lost worker, or of one that does not know of them. */
  async #judge(
    page: readonly RunInHands[],
    lost: ReadonlyMap<string, Date | null>,
    now: Date,
  ): Promise<readonly LostRun[]> {
    const unreported = await this.#unreportedAmong(page.filter(({ workerId }) => !lost.has(workerId)));
    return page.flatMap(({ id: runId, workerId, attempt }): LostRun[] => {
      const run = { runId, workerId, attempt };
      const silentSince = lost.get(workerId);
      if (silentSince !== undefined) {
        const overdueMs = silentSince && now.getTime() - silentSince.getTime() - this.grace.timeoutMs;
        return [{ ...run, reason: 'silent', lastHeartbeatAt: silentSince, overdueMs }];
      }
      const heardOf = unreported.get(runId);
      if (heardOf === undefined) return [];
      return [{ ...run, reason: 'unreported', lastHeartbeatAt: heardOf, overdueMs: null }];
    });
  }

  /** Runs that their worker does not name, with its last heartbeat. */
  async #unreportedAmong(held: readonly RunInHands[]): Promise<ReadonlyMap<string, Date | null>> {
    if (held.length === 0) return new Map();
    const unreported = await this.pool.findUnreported(
      held.map(({ id: runId, workerId }) => ({ runId, workerId })),
    );
    if (unreported.length === 0) return new Map();
    const workers = await this.pool.findAll([...new Set(unreported.map(({ workerId }) => workerId))]);
    return new Map(
      unreported.map(({ runId, workerId }) => [runId, workers.get(workerId)?.lastHeartbeatAt ?? null]),
    );
  }
}
