import assert from 'node:assert/strict';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { WorkerAbsenceEntity, WorkerDrainEntity } from '../../../src/database/entities/worker.entity.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { createLog } from '../../../src/common/logging/logger.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import { HeldRunRepository, type AssignedRun } from '../../../src/runs/storage/held-run.repository.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun, Run } from '../../../src/runs/machine/run.js';
import { HealthChecks } from '../../../src/health/health-checks.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { MemoryWorkerPool } from '../../../src/workers/pool/memory-worker-pool.js';
import { WorkerDrainsRepository } from '../../../src/workers/pool/worker-drains.repository.js';
import type { WorkerPool } from '../../../src/workers/pool/worker-pool.js';
import { LostRunSearch } from '../../../src/workers/reaper/lost-run-search.js';
import { GracePeriod } from '../../../src/workers/reaper/grace-period.js';
import { ReaperInstrumentation } from '../../../src/workers/reaper/reaper-instrumentation.js';
import { Reaper } from '../../../src/workers/reaper/reaper.js';
import { ManualClock } from '../../../src/common/testing/manual-clock.js';
import { beat, letPass, POOL_LIMITS, sharedPoolOn } from './worker-pools.js';
import { addExecutions } from '../runs/executions.js';
import { claimOf, createOn, eventCommand, journalOn } from '../runs/journal.js';

/** Worker timeout of a scene: longer than any test takes, so that only time that a test lets pass counts. */
export const TIMEOUT_MS = 3_600_000;

/** Places that hold the pool. */
export const POOLS = ['memory', 'shared'] as const;
export type PoolKind = (typeof POOLS)[number];

/** What a scene differs in. */
export interface SceneOptions {
  readonly pool?: PoolKind;
  readonly maxReclaims?: number;
  /** Stands between the reaper and the tables. */
  readonly runs?: HeldRunRepository;
}

/** Lets something happen at the moments at which others are faster than the reaper. */
export class InterruptedRuns extends HeldRunRepository {
  /** After the workers were judged, before their runs are read. */
  afterJudging: () => Promise<unknown> = () => Promise.resolve();
  /** After the runs were read, before they are reclaimed. */
  afterFinding: () => Promise<unknown> = () => Promise.resolve();

  override async listAssignedRuns(
    ...args: Parameters<HeldRunRepository['listAssignedRuns']>
  ): Promise<AssignedRun[]> {
    await this.afterJudging();
    const found = await super.listAssignedRuns(...args);
    await this.afterFinding();
    return found;
  }
}

/** The reaper of one server process on real tables, in a time that the test lets pass. */
export class ReaperScene {
  readonly logged: Record<string, unknown>[] = [];
  readonly clock = new ManualClock(Date.now());
  readonly grace = new GracePeriod(TIMEOUT_MS, this.clock);
  readonly journal: RunJournal;
  readonly registry = new Registry();
  readonly instrumentation: ReaperInstrumentation;
  readonly reaper: Reaper;

  private constructor(
    readonly dataSource: DataSource,
    readonly pool: WorkerPool,
    { maxReclaims = 3, runs = new HeldRunRepository() }: SceneOptions,
  ) {
    const settings = loadSettings([], {
      SERVICE_MAX_RECLAIMS: String(maxReclaims),
      SERVICE_LOSS_PATIENCE: '0',
      SERVICE_LOG_LEVEL: 'debug',
    });
    const destination = { write: (line: string): void => void this.logged.push(JSON.parse(line)) };
    const log = createLog(settings, { destination, pretty: false });
    this.journal = journalOn(dataSource, settings).journal;
    this.instrumentation = new ReaperInstrumentation(
      this.registry,
      new HealthChecks(),
      log,
      this.grace,
      settings,
    );
    const search = new LostRunSearch(dataSource, runs, pool, this.grace);
    this.reaper = new Reaper(search, this.journal, this.grace, this.instrumentation);
  }

  /** A process that listens and whose grace is over; nothing is in the pool. */
  static async open(dataSource: DataSource, options: SceneOptions = {}): Promise<ReaperScene> {
    const drains = new WorkerDrainsRepository(dataSource.getRepository(WorkerDrainEntity));
    let scene: ReaperScene | undefined;
    const now = (): number => scene?.clock.epochMs() ?? Date.now();
    if (options.pool === 'shared') {
      await execute(dataSource, 'truncate worker_pool, worker_descriptions, worker_pool_epoch');
      const pool = sharedPoolOn(dataSource, TIMEOUT_MS);
      await pool.onApplicationBootstrap();
      scene = new ReaperScene(dataSource, pool, options);
    } else {
      const absences = dataSource.getRepository(WorkerAbsenceEntity);
      const pool = await MemoryWorkerPool.open(TIMEOUT_MS, drains, absences, POOL_LIMITS, now);
      scene = new ReaperScene(dataSource, pool, options);
    }
    scene.grace.start();
    await scene.letPass(TIMEOUT_MS);
    return scene;
  }

  /** Everything that is stored of a run, to be compared. */
  async everythingOf(id: string): Promise<string> {
    const stored = await rows<{ all: unknown }>(
      this.dataSource,
      `select json_build_array(
                (select json_agg(r) from runs r where r.id = $1::uuid),
                (select json_agg(q) from queue q where q.run_id = $1::uuid),
                (select json_agg(a order by a.attempt) from attempts a where a.run_id = $1::uuid),
                (select json_agg(e order by e.index) from events e where e.run_id = $1::uuid),
                (select json_agg(f order by f.position) from feed_entries f where f.run_id = $1::uuid)
              ) as all`,
      [id],
    );
    return JSON.stringify(stored);
  }

  /** Another process on the same tables and the same pool, listening for as long. */
  another(dataSource: DataSource): ReaperScene {
    const other = new ReaperScene(dataSource, this.pool, {});
    other.grace.start();
    other.passHere(TIMEOUT_MS);
    return other;
  }

  /** Lets time pass for the process, its pool and everything stored; the process looks around all the while. */
  async letPass(ms: number): Promise<void> {
    await this.letOthersPass(ms);
    this.passHere(ms);
  }

  /** The process is paused while time passes for everything else. */
  async pause(ms: number): Promise<void> {
    await this.letOthersPass(ms);
    this.clock.advance(ms);
  }

  /** Lets time pass for everything stored. */
  async letOthersPass(ms: number): Promise<void> {
    await execute(
      this.dataSource,
      `update runs
          set queued_at = queued_at - make_interval(secs => $1::double precision),
              assigned_at = assigned_at - make_interval(secs => $1::double precision),
              started_at = started_at - make_interval(secs => $1::double precision)
        where finished_at is null`,
      [ms / 1000],
    );
    await execute(
      this.dataSource,
      `update executions set assigned_at = assigned_at - make_interval(secs => $1::double precision)`,
      [ms / 1000],
    );
    await letPass(this.dataSource, ms);
  }

  /** Lets time pass for the process alone. */
  passHere(ms: number): void {
    for (let left = ms; left > 0; left -= this.grace.checkEveryMs) {
      this.clock.advance(Math.min(left, this.grace.checkEveryMs));
      this.grace.check();
    }
  }

  /** A heartbeat, with the running runs if they are given. */
  async heartbeat(id: string, running?: readonly string[], awayMs?: number): Promise<void> {
    await this.pool.heartbeat({ ...beat(id, running), awayMs });
  }

  /** A new run in the hands of a worker that has just reported; nothing else may be pending. */
  async assigned(worker: string, given: Partial<NewRun> = {}): Promise<Run> {
    await this.heartbeat(worker);
    const { id } = await createOn(this.journal, given);
    await this.claim(worker);
    const run = await this.get(id);
    assert.deepEqual([run.state, run.workerId], ['ASSIGNED', worker]);
    return run;
  }

  /** Runs in the hands of a worker, written all at once. */
  async assignMany(worker: string, count: number): Promise<string[]> {
    const created = await Promise.all(Array.from({ length: count }, () => createOn(this.journal)));
    const ids = created.map(({ id }) => id);
    await this.dataSource.transaction(async (manager) => {
      await execute(manager, 'delete from queue where run_id = any($1::uuid[])', [ids]);
      await execute(
        manager,
        `update runs set state = 'ASSIGNED', worker_id = $2::text, assigned_at = clock_timestamp()
          where id = any($1::uuid[])`,
        [ids, worker],
      );
      await addExecutions(manager);
    });
    return ids;
  }

  /** What a claim of the worker gets. */
  async claim(worker: string): Promise<readonly string[]> {
    const outcome = await this.journal.claim(claimOf(worker));
    return outcome.runs.map(({ run }) => run.id);
  }

  /** Reports an event, as the holder that is given. */
  async event(
    runId: string,
    type: string,
    reporter: { readonly workerId?: string; readonly attempt?: number } = {},
    payload: JsonObject = type === 'STARTED' ? { worker_id: reporter.workerId ?? '' } : {},
  ): Promise<void> {
    const command = eventCommand({ type, msg: '', payload });
    assert.equal(command.type, 'event');
    await this.journal.change(runId, { ...command, reporter });
  }

  /** The run as it is stored. */
  async get(id: string): Promise<Run> {
    const [run] = await rows<Run>(
      this.dataSource,
      `select id, state, attempt, failures, reclaims, worker_id as "workerId", error_message as "errorMessage",
              assigned_at as "assignedAt", finished_at as "finishedAt"
         from runs
        where id = $1::uuid`,
      [id],
    );
    return run ?? assert.fail('there is no such run');
  }

  /** Its timeline. */
  async timeline(id: string): Promise<{ type: string; msg: unknown; payload: unknown; attempt: number }[]> {
    return rows(
      this.dataSource,
      'select type, msg, payload, attempt from events where run_id = $1::uuid order by index',
      [id],
    );
  }
}

/** Empties every table. */
export async function forgetEverything(dataSource: DataSource): Promise<void> {
  const tables = await rows<{ name: string }>(
    dataSource,
    `select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'longshore_migrations'`,
  );
  // Far quicker than truncate while there is next to nothing in them.
  await dataSource.query(tables.map(({ name }) => `delete from "${name}"`).join(';'));
}
