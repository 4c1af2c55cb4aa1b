import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { v7 as uuidv7 } from 'uuid';
import type { DataSource, EntityManager } from 'typeorm';
import type { ContainerOptions } from '../../../src/database/entities/run.entity.js';
import { execute } from '../../../src/database/sql/sql.js';
import { RunCountsRepository } from '../../../src/runs/counts/run-counts.repository.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import { createRun } from '../../../src/runs/machine/run.js';
import { QueueReader } from '../../../src/runs/queue/queue.reader.js';
import { requirementIdOf, requirementList, requirementsOf } from '../../../src/runs/requirements.js';
import { HeldRunRepository } from '../../../src/runs/storage/held-run.repository.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import {
  DemandReader,
  type Demand,
  type DemandSum,
  type StageDemand,
} from '../../../src/workers/capacity/demand.reader.js';
import { groupBy } from '../../support/history/index-history.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { claimOn, createOn, eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const NO_REQUIREMENTS = '00000000-0000-0000-0000-000000000000';

interface Options {
  readonly selector: readonly string[] | null;
  readonly container: ContainerOptions | null;
}

const PLAIN: Options = { selector: null, container: null };
const RESTRICTED: readonly Options[] = [
  { selector: ['gpu'], container: null },
  { selector: ['gpu', 'eu "x", \\'], container: null },
  { selector: [], container: { env: { A: '' }, args: [] } },
  {
    selector: ['gpu'],
    container: { command: ['sh'], args: ['x'], secrets: { B: 'b' }, image_pull_secret: 'c' },
  },
];

/** Where runs stand; only those of the first four are counted. */
const PLACES = ['plain', 'restricted', 'waiting', 'in execution', 'set by an admin', 'ended'] as const;

interface Row {
  readonly place: (typeof PLACES)[number];
  readonly options: Options;
  readonly isAdmitted: boolean;
  readonly priority: number;
  readonly cpu: number;
  readonly vramMb: number;
}

const row: fc.Arbitrary<Row> = fc
  .record({
    place: fc.constantFrom(...PLACES, 'plain', 'restricted', 'restricted', 'waiting'),
    options: fc.constantFrom(PLAIN, ...RESTRICTED),
    isAdmitted: fc.boolean(),
    priority: fc.nat({ max: 2 }),
    cpu: fc.nat({ max: 2 }),
    vramMb: fc.constantFrom(0, 0, 8000),
  })
  .map((given) => (given.place === 'plain' ? { ...given, options: PLAIN } : given));

const listOf = ({ selector, container }: Options): string[] =>
  requirementList(requirementsOf(selector, container));
const idOf = ({ selector, container }: Options): string | null =>
  requirementIdOf(requirementsOf(selector, container));

describe('the demand of runs', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await openTestDatabase();
  });
  afterEach(empty);
  afterAll(() => database.close());

  async function empty(): Promise<void> {
    await database.dataSource.query(
      `truncate runs, run_queue, restricted_queue, run_requirements, concurrency_keys, run_timers, events, attempts,
                run_counts, idempotency_keys`,
    );
  }

  /** Writes the rows; those of a queue come in their order, and the wait of each ends after that of those before it. */
  async function write(given: readonly Row[]): Promise<void> {
    const { dataSource } = database;
    const all = given.map(({ options, vramMb, isAdmitted, ...one }, n) => ({
      ...one,
      id: uuidv7(),
      at: new Date(Date.UTC(2030, 0, 1) + n).toISOString(),
      vram_mb: vramMb,
      is_admitted: isAdmitted,
      requirement_id: idOf(options),
      required: listOf(options),
      options,
    }));
    const into = (statement: string, ...places: readonly Row['place'][]): Promise<number> =>
      execute(
        dataSource,
        `with v as (
           select *
             from json_to_recordset($1) as v (
               id uuid, place text, at timestamptz, priority int, cpu int, vram_mb int, is_admitted boolean,
               requirement_id uuid, required text[]
             )
         )
         ${statement}`,
        [JSON.stringify(all.filter(({ place }) => places.includes(place)))],
      );
    await into(
      `insert into run_queue (run_id, priority, created_at, cpu, ram_mb, vram_mb)
       select id, priority, at, cpu, 10, vram_mb from v`,
      'plain',
    );
    await into(
      `insert into run_requirements (id, required, lead)
       select distinct on (requirement_id) requirement_id, required, required[1] from v where requirement_id is not null`,
      'restricted',
    );
    await into(
      `insert into restricted_queue (run_id, priority, created_at, cpu, ram_mb, vram_mb, requirement_id, alike, is_admitted)
       select id, priority, at, cpu, 10, vram_mb, coalesce(requirement_id, '${NO_REQUIREMENTS}'), 0, is_admitted from v`,
      'restricted',
    );
    const stored = all.filter(({ place }) => place !== 'plain' && place !== 'restricted');
    const runs = stored.map(({ id, options, requirement_id: requirementId, cpu, vram_mb: vramMb }) =>
      createRun(freshRun({ ...options, id, requirementId, cpu, ramMb: 10, vramMb }), new Date()),
    );
    await dataSource.transaction((manager) => new RunRepository().insert(manager, runs));
    await into(
      `update runs r
          set state = case when v.place = 'waiting' then 'PENDING' when v.place = 'ended' then 'CANCELLED' else 'RUNNING' end,
              worker_id = case when v.place = 'in execution' then 'w' end,
              not_before = case when v.place = 'waiting' then v.at end,
              assigned_at = case when v.place in ('in execution', 'set by an admin') then v.at end,
              finished_at = case when v.place = 'ended' then v.at end
         from v
        where r.id = v.id`,
      'waiting',
      'in execution',
      'set by an admin',
      'ended',
    );
  }

  test('is what counting the runs one by one yields, up to the limits', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { maxLength: 25 }),
        fc.integer({ min: 4, max: 30 }),
        fc.integer({ min: 1, max: 5 }),
        async (given, maxCounted, limit) => {
          await empty();
          await write(given);
          const { demand } = await readerOn(database.dataSource).read(limit, maxCounted);
          assert.deepEqual(demand, { at: demand.at, ...countOneByOne(given, limit, maxCounted) });
          if (demand.isAtLeast) seen.add('not all counted');
          if (demand.requirements.length > 1) seen.add('several requirements');
          if (demand.unrestricted !== null) seen.add('no requirements');
          if (demand.all.heldBack > 0) seen.add('held back');
        },
      ),
      { numRuns: atDepth({ fast: 40, all: 300 }), seed: testSeed(20_261_126), endOnFailure: true },
    );
    assert.deepEqual([...seen].toSorted(), [
      'held back',
      'no requirements',
      'not all counted',
      'several requirements',
    ]);
  });

  test('contains each run once, as pending or as in execution, while several processes move runs', async () => {
    const connections = await Promise.all(Array.from({ length: 4 }, () => database.open(2)));
    const racing = connections.map((source) => journalOn(source).journal);
    const reader = readerOn(database.dataSource);
    const [first] = racing;
    assert.ok(first);
    const created = await Promise.all(
      Array.from({ length: 40 }, () => createOn(first, { maxAttempts: 1000, backoffS: 3600 })),
    );
    const over = new AbortController();
    const move = async (n: number): Promise<void> => {
      const on = racing[n];
      assert.ok(on);
      for (let round = 0; round < 12; round += 1) {
        const claimed = await Promise.all(Array.from({ length: 5 }, () => claimOn(on, `w-${n}`)));
        const failed = claimed.flat().map(({ run }) => run.id);
        await Promise.all(
          failed.map((id) => on.change(id, eventCommand({ type: 'FAILED', msg: '', payload: {} }))),
        );
        await Promise.allSettled(
          created.slice(n * 10, n * 10 + 10).map(async ({ id }) => {
            await execute(
              database.dataSource,
              'update runs set not_before = created_at where id = $1 and not_before is not null',
              [id],
            );
            await on.change(id, { type: 'elapse', nextAttempt: { id: uuidv7(), jitter: 1 } });
          }),
        );
      }
    };
    const stages = new Set<string>();
    const watch = async (): Promise<number> => {
      let looks = 0;
      for (; !over.signal.aborted; looks += 1) {
        const { demand, held } = await reader.read(10);
        const { ready, waiting, inExecution } = demand.all;
        assert.equal(ready.runs + waiting.runs + inExecution.runs, 40);
        assert.equal([...held.values()].flat().length, inExecution.runs);
        for (const [stage, { runs: count }] of Object.entries({ ready, waiting, inExecution }))
          if (count > 0) stages.add(stage);
      }
      return looks;
    };
    const watching = watch();
    try {
      await Promise.all(racing.map((_, n) => move(n)));
    } finally {
      over.abort();
    }
    assert.ok((await watching) > 3);
    assert.equal(stages.size, 3);
  });

  for (const when of ['before', 'after']) {
    test(`reads no more rows than it counts, ${when} statistics were collected`, async () => {
      const { dataSource } = database;
      await execute(
        dataSource,
        `insert into run_queue (run_id, priority, created_at, cpu, ram_mb, vram_mb)
         select gen_random_uuid(), n % 3, now() + make_interval(secs => n), n % 7, 0, 0 from generate_series(1, 5000) as n`,
      );
      await execute(
        dataSource,
        `insert into restricted_queue (run_id, priority, created_at, cpu, ram_mb, vram_mb, requirement_id, alike, is_admitted)
         select gen_random_uuid(), n % 3, now() + make_interval(secs => n), n % 7, 0, 0, '${NO_REQUIREMENTS}', 0, true
           from generate_series(1, 5000) as n`,
      );
      const delayed: Row = {
        place: 'waiting',
        options: PLAIN,
        isAdmitted: true,
        priority: 0,
        cpu: 1,
        vramMb: 0,
      };
      await write(Array.from({ length: 200 }, () => delayed));
      if (when === 'after') await execute(dataSource, 'analyze');
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      const send = runner.query.bind(runner);
      let read = 0;
      runner.query = async (sql: string, params?: unknown[]) => {
        const [{ 'QUERY PLAN': plans }] = await send(`explain (analyze, format json) ${sql}`, params);
        read += rowsReadBy(plans[0].Plan);
        return send(sql, params, true);
      };
      const source = {
        transaction: (_: string, work: (on: EntityManager) => unknown) => work(runner.manager),
      };
      try {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is all that the reader uses
        const { demand } = await readerOn(source as unknown as DataSource).read(10, 400);
        const { ready, waiting } = demand.all;
        assert.deepEqual([ready.runs, waiting.runs, demand.isAtLeast], [300, 100, true]);
        assert.ok(read < 450, `${read} rows`);
      } finally {
        runner.query = send;
        await runner.rollbackTransaction();
        await runner.release();
      }
    });
  }
});

/** Rows that the scans of tables in a plan return, and those that they filter. */
function rowsReadBy(plan: any): number {
  const own =
    plan['Relation Name'] === undefined ? 0 : plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  return (plan.Plans ?? []).reduce(
    (sum: number, part: any) => sum + rowsReadBy(part),
    own * plan['Actual Loops'],
  );
}

function readerOn(dataSource: DataSource): DemandReader {
  return new DemandReader(
    dataSource,
    new RunCountsRepository(),
    new HeldRunRepository(),
    new QueueReader(new RunRepository(), new EventRepository()),
  );
}

const NOTHING: DemandSum = { runs: 0, cpu: 0, ramMb: 0, vramMb: 0, gpus: 0 };

/** The oracle of the statement. */
function countOneByOne(given: readonly Row[], limit: number, maxCounted: number): Omit<Demand, 'at'> {
  const inOrder = (place: Row['place']): Row[] => given.filter((one) => one.place === place);
  const byPriority = (place: Row['place']): Row[] =>
    inOrder(place).toSorted((a, b) => b.priority - a.priority);
  const maxWaiting = Math.floor(maxCounted / 4);
  const maxRestricted = Math.floor(maxCounted / 2);
  const waiting = inOrder('waiting').slice(0, maxWaiting);
  const restricted = byPriority('restricted').slice(0, maxRestricted);
  const plain = byPriority('plain').slice(0, maxCounted - waiting.length - restricted.length);
  const counted = [...waiting, ...restricted, ...plain, ...inOrder('in execution')];
  const groups = groupBy(counted, ({ options }) => idOf(options));
  const shapes = groupBy(counted, ({ cpu, vramMb }) => `${cpu} ${String(vramMb).padStart(4)}`);
  const required = [...groups].flatMap(([id, rows]) => {
    const [first] = rows;
    return first
      ? [{ id, pending: pendingOf(rows), required: listOf(first.options), ...stagesOf(rows) }]
      : [];
  });
  const largestFirst = (a: { pending: number } & StageDemand, b: { pending: number } & StageDemand): number =>
    b.pending - a.pending || b.inExecution.runs - a.inExecution.runs;
  const withoutKeys = ({ id: _, pending: __, ...demand }: (typeof required)[number]) => demand;
  return {
    all: stagesOf(counted),
    isAtLeast:
      waiting.length === maxWaiting ||
      restricted.length === maxRestricted ||
      waiting.length + restricted.length + plain.length === maxCounted,
    shapes: [...shapes]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([, rows]) => {
        const [first] = rows;
        const stages = stagesOf(rows);
        return first ? [{ cpu: first.cpu, vramMb: first.vramMb, pending: pendingOf(rows), ...stages }] : [];
      })
      .toSorted(largestFirst)
      .slice(0, limit)
      .map(({ cpu, vramMb, ready, waiting: later, inExecution }) => ({
        cpu,
        ramMb: 10,
        vramMb,
        ready: ready.runs,
        waiting: later.runs,
        inExecution: inExecution.runs,
      })),
    unrestricted: required.filter(({ id }) => id === null).map(withoutKeys)[0] ?? null,
    requirements: required
      .filter(({ id }) => id !== null)
      .toSorted((a, b) => largestFirst(a, b) || (String(a.id) < String(b.id) ? -1 : 1))
      .slice(0, limit)
      .map(withoutKeys),
  };
}

function pendingOf(rows: readonly Row[]): number {
  return rows.filter(({ place }) => place !== 'in execution').length;
}

function stagesOf(rows: readonly Row[]): StageDemand {
  const sum = (...places: readonly Row['place'][]): DemandSum =>
    rows
      .filter(({ place }) => places.includes(place))
      .reduce(
        (total, { cpu, vramMb }) => ({
          runs: total.runs + 1,
          cpu: total.cpu + cpu,
          ramMb: total.ramMb + 10,
          vramMb: total.vramMb + vramMb,
          gpus: total.gpus + Math.sign(vramMb),
        }),
        NOTHING,
      );
  return {
    ready: sum('plain', 'restricted'),
    waiting: sum('waiting'),
    inExecution: sum('in execution'),
    heldBack: rows.filter(({ place, isAdmitted }) => place === 'restricted' && !isAdmitted).length,
  };
}
