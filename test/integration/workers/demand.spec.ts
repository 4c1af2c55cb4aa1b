import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import fc from 'fast-check';
import { v7 as uuidv7 } from 'uuid';
import { execute } from '../../../src/database/sql/sql.js';
import { createRun } from '../../../src/runs/machine/run.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { addExecutions } from '../../support/runs/executions.js';
import { freshRun } from '../../support/runs/journal.js';
import {
  countOneByOne,
  DEMAND_PLACES,
  DEMAND_RAM_MB,
  demandReaderOn,
  inAnyOrder,
  laneOfRow,
  requirementsOfOptions,
  type DemandOptions,
  type DemandRow,
} from '../../support/workers/demand.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const PLAIN: DemandOptions = { selector: null, options: null, extraConstraints: null };
const RESTRICTED: readonly DemandOptions[] = [
  { selector: ['gpu'], options: null, extraConstraints: null },
  { selector: ['gpu', 'eu "x", \\'], options: null, extraConstraints: null },
  { selector: [], options: { env: { A: '' }, args: [] }, extraConstraints: null },
  { selector: null, options: null, extraConstraints: { shm_mb: 64 } },
  {
    selector: ['gpu'],
    options: { command: ['sh'], args: ['x'], secrets: { B: 'b' }, image_pull_secret: 'c' },
    extraConstraints: { cpu_limit_millis: 5000, shm_mb: 1 },
  },
];

const row: fc.Arbitrary<DemandRow> = fc
  .record({
    place: fc.constantFrom(...DEMAND_PLACES, 'plain', 'restricted', 'restricted', 'waiting'),
    options: fc.constantFrom(PLAIN, ...RESTRICTED),
    isAdmitted: fc.boolean(),
    isPaused: fc.constantFrom(false, false, true),
    priority: fc.nat({ max: 2 }),
    cpu: fc.nat({ max: 2 }),
    vramMb: fc.constantFrom(0, 0, 8000),
  })
  .map((given) => (given.place === 'plain' ? { ...given, options: PLAIN } : given));

const idOf = (options: DemandOptions): string | null => requirementIdOf(requirementsOfOptions(options));

describe('the demand of runs', () => {
  const database = useTestDatabase();

  afterEach(empty);

  async function empty(): Promise<void> {
    await database.dataSource.query(
      'delete from executions; delete from runs; delete from queue; delete from lanes',
    );
  }

  /** Writes the rows; those of a queue come in their order, and the wait of each ends after that of those before it. */
  async function write(given: readonly DemandRow[]): Promise<void> {
    const { dataSource } = database;
    const all = given.map(({ options, vramMb, isAdmitted, isPaused, ...one }, n) => ({
      ...one,
      id: uuidv7(),
      at: new Date(Date.UTC(2030, 0, 1) + n).toISOString(),
      vram_mb: vramMb,
      is_admitted: isAdmitted && !isPaused,
      is_paused: isPaused,
      requirement_id: idOf(options),
      ...laneOfRow({ options, isAdmitted }),
      options,
    }));
    const into = (statement: string, ...places: readonly DemandRow['place'][]): Promise<number> =>
      execute(
        dataSource,
        `with v as (
           select *
             from json_to_recordset($1) as v (
               id uuid, place text, at timestamptz, priority int, cpu int, vram_mb int, is_admitted boolean, is_paused boolean,
               requirement_id uuid, lane uuid, required text[], concurrency_key text
             )
         )
         ${statement}`,
        [JSON.stringify(all.filter(({ place }) => places.includes(place)))],
      );
    await into(
      `insert into queue (run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, is_paused, is_admitted)
       select id, priority, at, cpu * 1000, ${DEMAND_RAM_MB}, vram_mb, is_paused, not is_paused from v`,
      'plain',
    );
    await into(
      `insert into lanes (id, requirement_id, required)
       select distinct on (lane) lane, requirement_id, required from v`,
      'restricted',
    );
    await into(
      `insert into queue (
                run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane, is_admitted, is_paused, concurrency_key, concurrency_limit, alike
              )
       select id, priority, at, cpu * 1000, ${DEMAND_RAM_MB}, vram_mb, lane, is_admitted, is_paused, concurrency_key,
              case when concurrency_key is not null then 1 end, case when concurrency_key is not null then 1 end
         from v`,
      'restricted',
    );
    const stored = all.filter(({ place }) => place !== 'plain' && place !== 'restricted');
    const runs = stored.map(({ id, options, requirement_id: requirementId, cpu, vram_mb: vramMb }) =>
      createRun(freshRun({ ...options, id, requirementId, cpu, ramMb: DEMAND_RAM_MB, vramMb }), new Date()),
    );
    await dataSource.transaction((manager) => new RunRepository().insert(manager, runs, false));
    await into(
      `update runs r
          set state = case when v.place = 'waiting' then 'PENDING' when v.place = 'ended' then 'CANCELLED' else 'RUNNING' end,
              worker_id = case when v.place = 'in execution' then 'w' end,
              not_before = case when v.place = 'waiting' then v.at end,
              assigned_at = case when v.place in ('in execution', 'set by an admin') then v.at end,
              finished_at = case when v.place = 'ended' then v.at end,
              outcome = case when v.place = 'ended' then 'CANCELLED' else 'OPEN' end
         from v
        where r.id = v.id`,
      'waiting',
      'in execution',
      'set by an admin',
      'ended',
    );
    await addExecutions(dataSource);
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
          const { demand } = await demandReaderOn(database.dataSource).read(limit, maxCounted);
          assert.deepEqual(
            { ...demand, kinds: inAnyOrder(demand.kinds) },
            { at: demand.at, ...countOneByOne(given, limit, maxCounted) },
          );
          if (demand.isAtLeast) seen.add('not all counted');
          if (demand.requirements.length > 1) seen.add('several requirements');
          if (demand.unrestricted !== null) seen.add('no requirements');
          if (demand.all.heldBack > 0) seen.add('held back');
          if (demand.paused > 0) seen.add('paused');
        },
      ),
      { numRuns: atDepth({ fast: 40, all: 300 }), seed: testSeed(20_261_126), endOnFailure: true },
    );
    assert.deepEqual([...seen].toSorted(), [
      'held back',
      'no requirements',
      'not all counted',
      'paused',
      'several requirements',
    ]);
  });
});
