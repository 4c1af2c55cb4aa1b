import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import type { ContainerOptions } from '../../../src/database/entities/run.entity.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import {
  readRequirementDemand,
  type DemandByRequirements,
} from '../../../src/runs/counts/requirement-demand.js';
import { RunDemandRollUp } from '../../../src/runs/counts/run-demand.roll-up.js';
import { laneOf } from '../../../src/runs/queue/lane.js';
import { requirementIdOf, requirementList, requirementsOf } from '../../../src/runs/requirements.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { createRun } from '../../../src/runs/machine/run.js';
import { freshRun } from '../../support/runs/journal.js';
import { atDepth } from '../../support/depth.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

/** Later than anything that the tests do. */
const MUCH_LATER = new Date('2100-01-01T00:00:00.000Z');
const NONE = '00000000-0000-0000-0000-000000000000';

interface Options {
  readonly selector: readonly string[] | null;
  readonly container: ContainerOptions | null;
}

const KINDS: readonly Options[] = [
  { selector: null, container: null },
  { selector: ['gpu'], container: null },
  { selector: ['gpu', 'eu "x", \\'], container: null },
  { selector: [], container: { env: { A: '' }, args: [] } },
  {
    selector: ['gpu'],
    container: { command: ['sh'], args: ['x'], secrets: { B: 'b' }, image_pull_secret: 'c' },
  },
];

type Step =
  | { readonly do: 'queue'; readonly kind: number; readonly cpu: number; readonly isAdmitted: boolean }
  | { readonly do: 'delay' | 'execute'; readonly kind: number; readonly cpu: number }
  | { readonly do: 'unqueue' | 'admit' | 'elapse' | 'delete' | 'end'; readonly nth: number }
  | { readonly do: 'roll up' | 'empty the queue' };

const kind = fc.nat({ max: KINDS.length - 1 });
const cpu = fc.nat({ max: 2 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('queue'), kind, cpu, isAdmitted: fc.boolean() }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('delay', 'execute'), kind, cpu }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('unqueue', 'admit', 'elapse', 'delete', 'end'),
      nth: fc.nat({ max: 5 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('roll up') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('empty the queue') }) },
);

function optionsOf(place: number): Options {
  const found = KINDS[place];
  assert.ok(found);
  return found;
}

/** Selects the id at a place of a table, or none. */
function nth(table: string, condition: string, place: number): string {
  const id = table === 'runs' ? 'id' : 'run_id';
  return `select ${id} from ${table} where ${condition} order by 1 offset ${place} limit 1`;
}

/** Runs and cores by stage, and the runs held back. */
function numbers(one: DemandByRequirements['all']): number[] {
  const sums = [one.ready, one.waiting, one.inExecution];
  return [...sums.flatMap(({ runs, cpu: cores }) => [runs, cores]), one.heldBack];
}

describe('the counts of pending runs by their requirements', () => {
  let database: TestDatabase;
  const repository = new RunRepository();

  beforeAll(async () => {
    database = await openTestDatabase();
  });
  afterEach(empty);
  afterAll(() => database.close());

  async function empty(): Promise<void> {
    await database.dataSource.query('truncate runs, queue, lanes, run_timers, events, attempts');
    await rollUp();
    const kept = await rows<object>(
      database.dataSource,
      `select from requirement_demand_changes
        union all
       select from requirement_demand
        where requirement_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
           or held_back <> 0 or ready_runs <> 0 or waiting_runs <> 0`,
    );
    assert.equal(kept.length, 0, 'no count is left');
  }

  const rollUp = (): Promise<number> => new RunDemandRollUp(database.dataSource).runOnce(MUCH_LATER);
  const read = (limit = 100): Promise<DemandByRequirements> =>
    readRequirementDemand(database.dataSource, limit);
  async function insert(options: Options, cores: number, given: object): Promise<string> {
    const requirementId = requirementIdOf(requirementsOf(options.selector, options.container));
    const run = createRun(
      freshRun({ ...options, requirementId, cpu: cores, ramMb: 10, vramMb: cores }),
      new Date(),
    );
    await database.dataSource.transaction((manager) => repository.insert(manager, [run]));
    for (const [column, value] of Object.entries(given)) {
      await execute(database.dataSource, `update runs set ${column} = $2 where id = $1`, [run.id, value]);
    }
    return run.id;
  }

  async function queue(options: Options, cores: number, isAdmitted = true): Promise<void> {
    const requirementId = requirementIdOf(requirementsOf(options.selector, options.container));
    const concurrencyKey = isAdmitted ? null : 'key';
    const lane = laneOf({ requirementId, concurrencyKey, avoidedWorker: null });
    await execute(
      database.dataSource,
      `insert into queue (
                run_id, priority, created_at, cpu, ram_mb, vram_mb, lane, is_admitted, concurrency_key, concurrency_limit, alike
              )
       values ($1, 0, now(), $2, 10, $2, $3, $4, $5, $6::integer, $6::integer)`,
      [await insert(options, cores, {}), cores, lane, isAdmitted, concurrencyKey, concurrencyKey && 1],
    );
  }

  async function carryOut(one: Step): Promise<void> {
    const { dataSource } = database;
    switch (one.do) {
      case 'queue':
        return queue(optionsOf(one.kind), one.cpu, one.isAdmitted);
      case 'delay':
        await insert(optionsOf(one.kind), one.cpu, { not_before: new Date(), queued_at: new Date() });
        return;
      case 'execute':
        await insert(optionsOf(one.kind), one.cpu, { state: 'RUNNING', worker_id: 'w' });
        return;
      case 'unqueue':
        await execute(dataSource, `delete from queue where run_id in (${nth('queue', 'true', one.nth)})`);
        return;
      case 'admit':
        await execute(
          dataSource,
          `update queue set is_admitted = not is_admitted
            where run_id in (${nth('queue', 'concurrency_key is not null', one.nth)})`,
        );
        return;
      case 'elapse':
        await execute(
          dataSource,
          `update runs set not_before = null where id in (${nth('runs', 'not_before is not null', one.nth)})`,
        );
        return;
      case 'delete':
        await execute(
          dataSource,
          `delete from runs where id in (${nth('runs', 'id not in (select run_id from queue)', one.nth)})`,
        );
        return;
      case 'end':
        await execute(
          dataSource,
          `update runs set state = 'CANCELLED', finished_at = now(), not_before = null
            where id in (${nth('runs', 'finished_at is null', one.nth)})`,
        );
        return;
      case 'roll up':
        await rollUp();
        return;
      case 'empty the queue':
        await dataSource.query('truncate queue');
    }
  }

  /** What counting the tables says: runs, cores and those held back, by requirements and stage. */
  async function counted(): Promise<Map<string, number[]>> {
    const found = await rows<{ id: string | null; stage: number; cpu: number; held: number }>(
      database.dataSource,
      `select r.requirement_id as id, 0 as stage, q.cpu, (not q.is_admitted)::integer as held
         from queue q
         join runs r on r.id = q.run_id
        where q.lane <> '${NONE}'
        union all
       select requirement_id, case when state = 'PENDING' then 1 else 2 end, cpu, 0
         from runs
        where requirement_id is not null
          and (not_before is not null or state = 'RUNNING')`,
    );
    const sums = new Map<string, number[]>();
    for (const { id, stage, cpu: cores, held } of found) {
      const sum = sums.get(id ?? NONE) ?? [0, 0, 0, 0, 0, 0, 0];
      sums.set(id ?? NONE, sum);
      sum[2 * stage] = (sum[2 * stage] ?? 0) + 1;
      sum[2 * stage + 1] = (sum[2 * stage + 1] ?? 0) + cores;
      sum[6] = (sum[6] ?? 0) + held;
    }
    return sums;
  }

  test('equal what counting the runs says, whatever was done', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
        await empty();
        for (const one of steps) await carryOut(one);
        const truth = await counted();
        const without = truth.get(NONE);
        truth.delete(NONE);
        const { largest, all, heldBackWithout } = await read();
        const told = new Map(
          largest.map((one) => {
            const tags = one.required.flatMap((name) => (name.startsWith('tag:') ? [name.slice(4)] : []));
            const capabilities = one.required.flatMap((name) =>
              name.startsWith('capability:') ? [name.slice(11)] : [],
            );
            return [requirementIdOf({ tags, capabilities }), numbers(one)];
          }),
        );
        assert.deepEqual(told, truth);
        const sums = [...truth.values()].reduce(
          (sum, one) => sum.map((value, i) => value + (one[i] ?? 0)),
          [0, 0, 0, 0, 0, 0, 0],
        );
        assert.deepEqual(numbers(all), sums);
        assert.equal(heldBackWithout, without?.[6] ?? 0);
      }),
      { numRuns: atDepth({ fast: 10, all: 80 }), endOnFailure: true },
    );
  });

  test('list those with the most runs, also when others had more a moment ago', async () => {
    for (const [i, runs] of [1, 5, 3].entries()) {
      for (let n = 0; n < runs; n += 1) await queue({ selector: [`t${i}`], container: null }, 1);
    }
    await rollUp();
    for (let n = 0; n < 4; n += 1) await queue({ selector: ['t0'], container: null }, 1);
    await execute(database.dataSource, `delete from queue where lane = $1`, [
      requirementIdOf({ tags: ['t1'], capabilities: [] }),
    ]);
    const { largest, all } = await read(1);
    assert.deepEqual(
      largest.map(({ required, ready }) => [required, ready.runs]),
      [[['tag:t0'], 5]],
    );
    assert.equal(all.ready.runs, 8);
  });

  test('name the requirements of runs that never were in the queue', async () => {
    for (const options of KINDS.slice(1)) await insert(options, 1, { state: 'RUNNING', worker_id: 'w' });
    const names = KINDS.slice(1).map(({ selector, container }) =>
      requirementList(requirementsOf(selector, container)),
    );
    const { largest } = await read();
    assert.deepEqual(new Set(largest.map(({ required }) => required.join())), new Set(names.map(String)));
  });
});
