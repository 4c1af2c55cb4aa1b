import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EntityManager } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { CommitNotices, type NoticeSource } from '../../../src/database/notices/commit-notices.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { createLog } from '../../../src/common/logging/logger.js';
import { PLAIN, claimablePart, readClaimablePart } from '../../../src/runs/queue/lane.js';
import { LowWaterMarks } from '../../../src/runs/queue/low-water-marks.js';
import type { QueueRepository } from '../../../src/runs/queue/queue.repository.js';
import type { QueuedRun } from '../../../src/runs/scheduling-strategy.js';
import { addExecutions } from '../../support/runs/executions.js';
import { createOn, journalOn, queueWith } from '../../support/runs/journal.js';
import type { TestDatabase } from '../../support/test-database.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const FIRST = Date.parse('2026-01-01T00:00:00.000Z');

const CONNECTED = { isListening: true, subscribe: () => () => undefined };

/** The claims of a server process: its marks, and a clock that never lets a full scan become due. */
class Process {
  time = 0;
  readonly marks: LowWaterMarks;
  readonly queue: QueueRepository;

  private constructor(notices: NoticeSource) {
    this.marks = new LowWaterMarks(notices, () => this.time);
    this.queue = queueWith(this.marks);
  }

  static async start(notices: NoticeSource = CONNECTED): Promise<Process> {
    const process = new Process(notices);
    process.marks.onModuleInit();
    await process.marks.scanFully(() => {
      process.time += 1_000_000;
      return Promise.resolve([]);
    });
    return process;
  }
}

describe('low-water marks of the queue', () => {
  const database = useTestDatabase();
  let process: Process;

  beforeEach(async () => {
    await execute(database.dataSource, 'truncate queue, runs cascade');
    process = await Process.start();
  });

  const transaction = <T>(work: (manager: EntityManager) => Promise<T>): Promise<T> =>
    database.dataSource.transaction(work);

  const claim = (by: Process, limit: number): Promise<QueuedRun[]> =>
    transaction(async (manager) => {
      const found = await by.queue.readFirst(manager, limit, true);
      await by.queue.remove(manager, found);
      return found;
    });

  /** Runs of one priority, a millisecond apart, in no order in their table: each is a block of its own to fetch. */
  async function fill(count: number, priority: number): Promise<void> {
    await execute(
      database.dataSource,
      `with made as (
         insert into runs (
           id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
           max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at, size
         )
         select gen_random_uuid(), 'PENDING', $2, 0, 1, gen_random_uuid(), 0, 0, 0, 0,
                1, 'i', '{}', '{}', 0, 0, 0, t, t, t, 4
           from (
             select $3::timestamptz + n * interval '1 millisecond' as t
               from generate_series(1, $1::integer) as n
              order by md5(n::text)
           ) as series
      returning id, priority, created_at
       )
       insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select id, priority, created_at, 0, 0, 0 from made`,
      [count, priority, new Date(FIRST).toISOString()],
    );
  }

  test('let a scan skip claimed runs while a long transaction keeps the deleted rows', async () => {
    for (const priority of [2, 1, 0]) await fill(4_000, priority);
    await execute(database.dataSource, 'analyze queue, runs');
    const long = database.dataSource.createQueryRunner();
    await long.startTransaction('REPEATABLE READ');
    try {
      await rows(long, 'select 1 from runs limit 1');
      for (let taken = 0; taken < 10_000; taken += 200) {
        process.time += 2_000;
        assert.equal((await claim(process, 200)).length, 200);
      }
      const withMarks = await blocksOf(database, process.queue);
      const without = await blocksOf(database, queueWith());
      assert.ok(withMarks < 400, `${withMarks} blocks`);
      assert.ok(without > 10 * withMarks, `${without} blocks without marks, ${withMarks} with them`);
    } finally {
      await long.rollbackTransaction();
      await long.release();
    }
  });

  for (const seed of [1, 2, 3]) {
    test(`never hide a run whose notification has arrived (seed ${seed})`, async () => {
      const random = randomOf(seed);
      const pick = (n: number): number => Math.floor(random() * n);
      const processes = [process, await Process.start()];
      for (let step = 0; step < 150; step += 1) {
        const by = processes[pick(2)] ?? process;
        by.time += pick(3) * 600;
        await act(by, pick(9), pick);
        // Every process has been notified before the next step.
        for (const other of processes) {
          const expected = await rows<{ id: string }>(
            database.dataSource,
            `select run_id as id from queue order by priority desc, created_at, run_id limit 5`,
          );
          const seen = await rolledBack((manager) => other.queue.readFirst(manager, 5, true));
          assert.deepEqual(
            seen.map(({ id }) => id),
            expected.map(({ id }) => id),
            `step ${step}`,
          );
          const isEmpty = await rolledBack((manager) => other.queue.isPlainEmpty(manager));
          assert.equal(isEmpty, expected.length === 0);
        }
      }

      async function act(by: Process, kind: number, dice: (n: number) => number): Promise<void> {
        if (kind < 4) return enqueue(dice(3), FIRST + dice(100_000), dice(4) === 0);
        if (kind < 6) {
          await claim(by, 1 + dice(4));
          return;
        }
        if (kind === 6) return rolledBack((manager) => claimIn(manager, by, 1 + dice(4)));
        const removing = async (manager: EntityManager): Promise<void> => {
          const [first] = await by.queue.readFirst(manager, 1, true);
          if (first) await by.queue.remove(manager, [first]);
          by.time += 2_000;
          await by.queue.readFirst(manager, 2, true);
        };
        if (kind === 7) return transaction(removing);
        return rolledBack(removing);
      }

      async function claimIn(manager: EntityManager, by: Process, limit: number): Promise<void> {
        const found = await by.queue.readFirst(manager, limit, true);
        await by.queue.remove(manager, found);
      }

      /** Enqueues a run, or changes the priority of a queued one, and notifies every process as the commit would. */
      async function enqueue(priority: number, at: number, isChange: boolean): Promise<void> {
        if (!isChange) await fillOne(priority, new Date(at));
        const [run] = await rows<QueuedRun>(
          database.dataSource,
          `select r.id, $1::integer as priority, r.created_at as "createdAt", 0 as "ramMb", 0 as "vramMb", 0 as cpu,
                  null as "requirementId", null as "concurrencyKey", null as "avoidedWorker"
             from runs r
             join queue q on q.run_id = r.id
            order by ${isChange ? 'r.id' : 'r.updated_at desc, r.id'}
            limit 1`,
          [priority],
        );
        if (!run) return;
        await transaction((manager) => (processes[1] ?? process).queue.put(manager, [run]));
        for (const { marks } of processes) {
          for (const position of readClaimablePart(claimablePart([{ ...run, lane: PLAIN }])).from ?? []) {
            marks.put(position);
          }
        }
      }
    });
  }

  async function fillOne(priority: number, at: Date): Promise<void> {
    const id = uuidv7();
    await execute(
      database.dataSource,
      `with made as (
         insert into runs (
           id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
           max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at, size
         )
         values ($1, 'PENDING', $2, 0, 1, $1, 0, 0, 0, 0, 1, 'i', '{}', '{}', 0, 0, 0, $3, $3, clock_timestamp(), 4)
      returning id, created_at
       )
       insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select id, -100, created_at, 0, 0, 0 from made`,
      [id, priority, at.toISOString()],
    );
  }

  /** Does the work in a transaction and rolls it back. */
  async function rolledBack<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const runner = database.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      return await work(runner.manager);
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  }

  describe('of a process among others', () => {
    let notices: CommitNotices;

    beforeEach(async () => {
      notices = new CommitNotices(database.dataSource, createLog({ logLevel: 'error' }));
      process = await Process.start(notices);
      await eventually(() => Promise.resolve(assert.ok(process.marks.isCurrent)));
    });
    afterEach(async () => {
      process.marks.onModuleDestroy();
      await notices.onApplicationShutdown();
    });

    test('move back for a run of a higher priority, and an older one, that another process creates', async () => {
      const other = journalOn(await database.open()).journal;
      await fill(500, 0);
      for (let n = 0; n < 4; n += 1) {
        process.time += 2_000;
        await claim(process, 100);
      }
      const [marked] = process.marks.ranges.filter(({ from }) => from);
      assert.ok(marked?.from && marked.from.createdAt.getTime() > FIRST + 100, 'the mark has moved');
      const first = await createOn(other, { priority: 7 });
      await eventually(async () => {
        const [head] = await rolledBack((manager) => process.queue.readFirst(manager, 1, true));
        assert.equal(head?.id, first.id);
      });
      await claim(process, 1);
      const [old] = await rows<{ id: string }>(
        database.dataSource,
        `update runs
            set state = 'ASSIGNED', worker_id = 'w', assigned_at = now()
          where created_at = $1
      returning id`,
        [new Date(FIRST + 1).toISOString()],
      );
      assert.ok(old);
      await addExecutions(database.dataSource);
      await other.change(old.id, { type: 'patch', keyName: 'k', state: 'PENDING' });
      await eventually(async () => {
        const [head] = await rolledBack((manager) => process.queue.readFirst(manager, 1, true));
        assert.equal(head?.id, old.id);
      });
    });

    test('are not used while notices do not arrive', async () => {
      await fill(300, 0);
      process.time += 2_000;
      await claim(process, 100);
      process.time += 2_000;
      await claim(process, 100);
      assert.ok(process.marks.ranges.some(({ from }) => from));
      await notices.onApplicationShutdown();
      assert.equal(process.marks.isCurrent, false);
      await fillOne(0, new Date(FIRST - 1));
      await execute(database.dataSource, 'update queue set priority = 0');
      const [head] = await rolledBack((manager) => process.queue.readFirst(manager, 1, true));
      assert.equal(head?.createdAt.getTime(), FIRST - 1);
    });
  });
});

/** Tries again for five seconds at most. */
async function eventually(check: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 120_000; ; await sleep(5)) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

/** Blocks that locking the head of the queue touches. */
async function blocksOf({ dataSource }: TestDatabase, queue: QueueRepository): Promise<number> {
  const runner = dataSource.createQueryRunner();
  const send = runner.query.bind(runner);
  await runner.startTransaction();
  try {
    let blocks = 0;
    runner.query = async (sql: string, params?: unknown[]) => {
      const [row] = await send(`explain (analyze, buffers, format json) ${sql}`, params);
      const plan = row['QUERY PLAN'][0].Plan;
      blocks += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      return send(sql, params, true);
    };
    assert.equal((await queue.readFirst(runner.manager, 10, true)).length, 10);
    return blocks;
  } finally {
    runner.query = send;
    await runner.rollbackTransaction();
    await runner.release();
  }
}

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
