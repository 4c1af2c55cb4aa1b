import { setMaxListeners } from 'node:events';
import type { DataSource } from 'typeorm';
import { WorkerAbsenceEntity, WorkerDrainEntity } from '../../../src/database/entities/worker.entity.js';
import { CommitNotices } from '../../../src/database/notices/commit-notices.js';
import { createLog } from '../../../src/common/logging/logger.js';
import type { Claim, ClaimOutcome } from '../../../src/runs/journal/command.js';
import {
  IdempotencyRepository,
  type Idempotency,
} from '../../../src/runs/idempotency/idempotency.repository.js';
import { Lanes } from '../../../src/runs/queue/lanes.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { SchedulingStrategy } from '../../../src/runs/scheduling-strategy.js';
import { ClaimService } from '../../../src/claims/claim.service.js';
import { WaitingClaims } from '../../../src/claims/waiting-claims.js';
import { MemoryWorkerPool } from '../../../src/workers/pool/memory-worker-pool.js';
import { WorkerDrainsRepository } from '../../../src/workers/pool/worker-drains.repository.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';
import { journalOn, NO_PAUSES, openJournal } from '../runs/journal.js';
import { until } from '../service-process.js';
import type { TestDatabase } from '../test-database.js';
import { beat, POOL_LIMITS } from './worker-pools.js';

/** Counts the statements that look for the keys of claims. */
class CountedKeys extends IdempotencyRepository {
  reads = 0;

  override findClaimed(
    ...args: Parameters<IdempotencyRepository['findClaimed']>
  ): ReturnType<IdempotencyRepository['findClaimed']> {
    this.reads += 1;
    return super.findClaimed(...args);
  }
}

/** What one claim is asked with. */
export interface ClaimOptions {
  readonly key?: string;
  /** Seconds; unless given, longer than a test may take. */
  readonly wait?: number;
}

/** The claims of one server process on a real database, and how often they ask it. */
export class ClaimProcess {
  /** Claims submitted to the journal. */
  submitted = 0;
  readonly keys = new CountedKeys();
  readonly waiting: WaitingClaims;
  readonly #claims: ClaimService;
  readonly #callers = new AbortController();

  private constructor(
    readonly dataSource: DataSource,
    readonly journal: RunJournal,
    readonly lanes: Lanes,
    readonly notices: CommitNotices,
    readonly pool: MemoryWorkerPool,
    strategy: SchedulingStrategy,
  ) {
    setMaxListeners(0, this.#callers.signal);
    this.waiting = new WaitingClaims(notices, journal, strategy, NO_PAUSES);
    const counted = {
      claim: (claim: Claim): Promise<ClaimOutcome> => {
        this.submitted += 1;
        return journal.claim(claim);
      },
    };
    this.#claims = new ClaimService(pool, counted, this.waiting, this.keys, dataSource);
  }

  /**
   * Starts one.
   * @param reconnectMs pause before a lost listening connection is replaced
   */
  static async start(
    database: TestDatabase,
    {
      strategy = new DirectStrategy(),
      reconnectMs = 5,
    }: { strategy?: SchedulingStrategy; reconnectMs?: number } = {},
  ): Promise<ClaimProcess> {
    const dataSource = await database.open(3);
    const log = createLog({ logLevel: 'error' }, { destination: { write: () => undefined }, pretty: false });
    const times = { firstPause: reconnectMs, longestPause: reconnectMs, check: 60_000, answer: 5_000 };
    const pool = await MemoryWorkerPool.open(
      3_600_000,
      new WorkerDrainsRepository(dataSource.getRepository(WorkerDrainEntity)),
      dataSource.getRepository(WorkerAbsenceEntity),
      POOL_LIMITS,
    );
    const notices = new CommitNotices(dataSource, log, times);
    const lanes = new Lanes(notices);
    lanes.onModuleInit();
    const { journal } = journalOn(await openJournal(database), { strategy, pool }, lanes);
    return new ClaimProcess(dataSource, journal, lanes, notices, pool, strategy);
  }

  /** Has workers known to the process. */
  async know(...workers: readonly string[]): Promise<void> {
    for (const worker of workers) await this.pool.heartbeat(beat(worker));
  }

  /** Has a worker with these tags known to the process. */
  async knowTagged(worker: string, ...tags: readonly string[]): Promise<void> {
    await this.pool.heartbeat({ ...beat(worker), tags });
  }

  /** A claim; answers the ids of its runs. */
  async claim(worker: string, { key, wait = 3_600 }: ClaimOptions = {}): Promise<string[]> {
    const idempotency: Idempotency | undefined =
      key === undefined ? undefined : { scope: `${worker} ${key}`, requestHash: '' };
    const { signal } = this.#callers;
    const got = await this.#claims.claim({ workerId: worker, waitMs: wait * 1000, idempotency, signal });
    return got.runs.map(({ run }) => run.id);
  }

  /** Has a claim of a known worker find nothing, so that the process knows that nothing is there. */
  async settle(worker = 'other'): Promise<void> {
    await until(async () => {
      await this.claim(worker, { wait: 0.01 });
      return this.waiting.isQueueEmpty;
    }, 'the process knows that there is nothing');
    this.submitted = 0;
    this.keys.reads = 0;
  }

  /** Ends its claims and closes it. */
  async close(): Promise<void> {
    this.#callers.abort();
    await this.journal.idle();
    this.waiting.onModuleDestroy();
    this.lanes.onModuleDestroy();
    await this.notices.onApplicationShutdown();
  }
}
