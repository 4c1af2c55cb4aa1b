import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { WaitEnds } from '../../common/waits/until-woken.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import type { Topics } from '../../database/notices/topics.js';
import type { EndingAttempt } from '../../runs/queue/concurrency-keys.js';
import { ConcurrencySlots } from '../../runs/queue/concurrency-slots.js';
import { HeldRunRepository, type LostRun, type ReportedRun } from '../../runs/storage/held-run.repository.js';
import { BatchedReads } from '../../database/sql/batched-reads.js';
import { withTimeout } from '@longshore/common/timeout';
import { currentSpan } from '@longshore/common/tracing/current-span';
import type { Response } from 'express';
import { Gauge, Registry } from 'prom-client';
import { isBound, type Caller } from '../../auth/access.js';
import { HELD, HeldRequests, type HeldRequest } from '../../common/http/server/held-requests.js';
import { Quota } from '../../common/quotas/quota.js';
import { Settings } from '../../config/settings.js';
import { isRunId } from '../../runs/machine/new-id.js';
import type { Heartbeat } from '../pool/worker-pool.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** Timeout of a query, in milliseconds; it then finds nothing. */
const TIMEOUT_MS = 2_000;

/** Pause after a query that failed, in milliseconds. */
const RETRY_MS = 500;

type Report = readonly ReportedRun[];

/** What a worker is told of the runs that it names. */
export interface ToldRuns {
  /** Null: not known, as the database is unavailable or slow. */
  readonly lost: readonly LostRun[] | null;
  /** Attempts whose programs it is to kill. */
  readonly killed: readonly EndingAttempt[];
}

/**
 * Finds the runs that workers report and do not hold any more. The commit that takes a run from a worker notifies every process.
 */
@Injectable()
export class LostRuns {
  readonly #queries: BatchedReads<Report, readonly LostRun[]>;
  /** By worker. */
  readonly #losses: Topics;

  constructor(
    heldRuns: HeldRunRepository,
    dataSource: DataSource,
    notices: CommitNotices,
    private readonly slots: ConcurrencySlots,
  ) {
    this.#losses = notices.topicsOf('freedWorkers');
    this.#queries = new BatchedReads((reports) => heldRuns.findLost(dataSource, reports));
  }

  /** Those of the runs that are lost now, and those to be killed. */
  async find(workerId: string, report: Report, ending: readonly EndingAttempt[]): Promise<ToldRuns> {
    const [lost, killed] = await Promise.all([
      report.length === 0 ? [] : within(this.#queries.load(report)),
      ending.length === 0 ? [] : within(this.slots.findKilled(workerId, ending)),
    ]);
    return { lost: lost ?? null, killed: killed ?? [] };
  }

  /** Waits until the worker loses one of the runs, or is to kill one. After the timeout or an abort, what the last look has found. */
  async wait(
    workerId: string,
    report: Report,
    ending: readonly EndingAttempt[],
    { signal, forMs }: Required<WaitEnds>,
  ): Promise<ToldRuns> {
    const endsAt = monotonicMs() + forMs;
    const losses = this.#losses.subscribe(workerId);
    try {
      for (;;) {
        const { version } = losses;
        const told = await this.find(workerId, report, ending);
        const { lost, killed } = told;
        if ((lost !== null && lost.length > 0) || killed.length > 0) return told;
        const leftMs = endsAt - monotonicMs();
        if (leftMs <= 0 || signal.aborted) return told;
        const ends = { signal, forMs: lost === null ? Math.min(leftMs, RETRY_MS) : leftMs };
        const isWoken = await losses.waitForChange(0, version, ends);
        // The next heartbeat queries again.
        if (!isWoken && (signal.aborted || monotonicMs() >= endsAt)) return told;
      }
    } finally {
      this.#losses.unsubscribe(losses);
    }
  }
}

/** Null: no answer in time. */
function within<T>(query: Promise<T>): Promise<T | null> {
  const answer: Promise<T | null> = query.catch(() => null);
  return withTimeout(TIMEOUT_MS, answer, null);
}

/** The runs that a heartbeat names, each attempt once. */
export interface NamedRuns {
  readonly workerId: string;
  readonly runs: readonly Pick<ReportedRun, 'id' | 'attempt'>[];
  /** Lost ones whose programs the worker is ending. */
  readonly ending: readonly EndingAttempt[];
}

/** What is needed of a heartbeat while it is held: no inputs of runs, and no runs that cannot exist. */
export function namedRunsOf({ id: workerId, runningOps = [] }: Heartbeat): Omit<NamedRuns, 'ending'> {
  const runs = new Map(
    runningOps
      .filter(({ id }) => isRunId(id))
      .map(({ id, attempt = null }) => [`${id} ${attempt}`, { id, attempt }]),
  );
  return { workerId, runs: [...runs.values()] };
}

/** Answers recorded heartbeats with the runs that their workers lost, and holds those that may wait for one: one of each worker. */
@Injectable()
export class HeldHeartbeats {
  readonly #quota: Quota;
  /** The held heartbeat of each worker. */
  readonly #byWorker = new Map<string, HeldRequest>();

  constructor(
    private readonly lostRuns: LostRuns,
    private readonly requests: HeldRequests,
    { waitingClaims, waitingClaimsPerKey }: Settings,
    registry: Registry,
  ) {
    this.#quota = new Quota({
      what: 'waiting heartbeats',
      setting: 'SERVICE_WAITING_CLAIMS',
      total: waitingClaims,
      perKey: waitingClaimsPerKey,
    });
    const waiting: Gauge = new Gauge({
      name: 'longshore_waiting_heartbeats',
      help: 'Heartbeats that wait for the loss of a run',
      registers: [registry],
      collect: () => waiting.set(this.#quota.held),
    });
  }

  /**
   * The named runs that the worker does not hold, and those that it is to kill. Waits for the first one if it may; over the quota it does
   * not wait, as the worker is registered already. Ends the wait of an older heartbeat of the worker.
   */
  async findLost(
    { workerId, runs, ending }: NamedRuns,
    waitMs: number,
    caller: Caller,
    response: Response,
  ): Promise<ToldRuns> {
    this.#byWorker.get(workerId)?.cancel();
    const boundKey = isBound(caller) ? caller.keyId : null;
    const report = runs.map(({ id, attempt }) => ({ id, workerId, attempt, boundKey }));
    const held = waitMs > 0 ? this.requests.tryOpen(response, this.#quota) : null;
    if (held === null) return this.lostRuns.find(workerId, report, ending);
    currentSpan()?.set(HELD);
    this.#byWorker.set(workerId, held);
    try {
      return await this.lostRuns.wait(workerId, report, ending, { signal: held.signal, forMs: waitMs });
    } finally {
      held.close();
      if (this.#byWorker.get(workerId) === held) this.#byWorker.delete(workerId);
    }
  }
}
