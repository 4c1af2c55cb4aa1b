import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { readRequirementDemand } from '../../../src/runs/counts/requirement-demand.js';
import { readDemand, type RunDemand } from '../../../src/runs/counts/run-demand.reader.js';
import { RunDemandRollUp } from '../../../src/runs/counts/run-demand.roll-up.js';
import type { Claim } from '../../../src/runs/journal/claim.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { RUN_STATES, type RunState } from '../../../src/runs/machine/run-state.js';
import { requirementIdOf, requirementsOf } from '../../../src/runs/requirements.js';
import { RunRetention } from '../../../src/runs/retention/run-retention.js';
import { RunRetentionRepository } from '../../../src/runs/retention/run-retention.repository.js';
import type { ClaimContext } from '../../../src/runs/scheduling-strategy.js';
import { claimOf, claimOn, createOn, eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { atDepth, testSeed } from '../../support/depth.js';

const SCENES = atDepth({ fast: 10, all: 60 });
const AT_ONCE = 6;
const BACK_OFF = { maxAttempts: 3, backoffS: 3600 };
const SHAPES = [
  { cpu: 0, ramMb: 0, vramMb: 0 },
  { cpu: 2, ramMb: 4000, vramMb: 0 },
  { cpu: 1, ramMb: 500, vramMb: 8000 },
] as const;

/** What runs require of a worker, and their keys. */
const OPTIONS: readonly Partial<NewRun>[] = [
  {},
  {},
  { concurrencyKey: 'k', concurrencyLimit: 1 },
  { selector: ['gpu'] },
  { selector: ['gpu'], container: { env: { A: 'a' } }, concurrencyKey: 'k', concurrencyLimit: 2 },
].map((options) => ({
  ...options,
  requirementId: requirementIdOf(requirementsOf(options.selector ?? null, options.container ?? null)),
}));

/** Later than anything that the tests do. */
const MUCH_LATER = new Date('2100-01-01T00:00:00.000Z');

type What = 'create' | 'poison' | 'claim' | 'elapse' | 'reclaim' | 'retain' | 'roll up' | RunCommand;

/** What is done to the n-th run that there is. */
interface Step {
  readonly journal: number;
  readonly run: number;
  readonly shape: number;
  readonly options: number;
  readonly backsOff: boolean;
  readonly what: What;
}

function anyStep(): fc.Arbitrary<Step> {
  const reported = fc.constantFrom(
    'STARTED',
    'COMPLETED',
    'FAILED',
    'FAILED',
    'CANCELLED',
    'RETRIED',
    'NOTE',
  );
  const patched = fc.record({
    state: fc.option(fc.constantFrom(...RUN_STATES), { nil: undefined }),
    priority: fc.option(fc.integer({ min: -2, max: 2 }), { nil: undefined }),
  });
  const named = fc.constantFrom<What>('elapse', 'reclaim', 'retain', 'roll up', 'poison');
  return fc.record({
    journal: fc.nat({ max: 1 }),
    run: fc.nat({ max: 7 }),
    shape: fc.nat({ max: SHAPES.length - 1 }),
    options: fc.nat({ max: OPTIONS.length - 1 }),
    backsOff: fc.boolean(),
    what: fc.oneof(
      { weight: 4, arbitrary: fc.constant<What>('create') },
      { weight: 5, arbitrary: fc.constant<What>('claim') },
      { weight: 8, arbitrary: reported.map(eventOf) },
      { weight: 2, arbitrary: patched.map((patch) => patchTo(patch)) },
      { weight: 4, arbitrary: named },
    ),
  });
}

describe('the counts of pending runs by what they ask for', () => {
  let database: TestDatabase;
  let journals: RunJournal[];

  beforeAll(async () => {
    database = await openTestDatabase();
    journals = [journalOn(database.dataSource).journal, journalOn(await database.open()).journal];
  });
  afterEach(async () => {
    await database.dataSource.query(
      `truncate runs, queue, lanes, concurrency_keys, run_timers, events, attempts,
                run_counts, idempotency_keys`,
    );
    await rollUp().runOnce(MUCH_LATER);
    assert.equal(await rowsKept(), 0);
  });
  afterAll(() => database.close());

  const read = (limit = 100): Promise<RunDemand> => readDemand(database.dataSource, limit);
  const journal = (n = 0): RunJournal => {
    const found = journals[n];
    assert.ok(found);
    return found;
  };
  const rollUp = (source = database.dataSource): RunDemandRollUp => new RunDemandRollUp(source);
  const retention = (): RunRetention =>
    new RunRetention(database.dataSource, new RunRetentionRepository(), {
      runRetentionDays: 1,
    });

  /** What counting the tables says, and that the queue holds what the runs say. */
  async function counted(): Promise<unknown> {
    const found = await rows<object>(
      database.dataSource,
      `select cpu, ram_mb as "ramMb", vram_mb as "vramMb",
              count(*) filter (where state = 'PENDING' and not_before is null)::integer as ready,
              count(*) filter (where state = 'PENDING' and not_before is not null)::integer as waiting,
              count(*) filter (where state in ('ASSIGNED', 'RUNNING') and worker_id is not null)::integer as "inExecution"
         from runs
        where state = 'PENDING'
           or state in ('ASSIGNED', 'RUNNING') and worker_id is not null
        group by cpu, ram_mb, vram_mb`,
    );
    const queued = await rows<object>(
      database.dataSource,
      `select run_id as id from queue
       except
       select id from runs where state = 'PENDING' and not_before is null`,
    );
    assert.deepEqual(queued, []);
    return byShape(found);
  }

  /** What counting the tables says of runs with requirements: ready, waiting, in execution, held back. */
  async function countedByRequirements(): Promise<object[]> {
    return rows<object>(
      database.dataSource,
      `select array_remove(array['capability:env', 'tag:gpu'], case when container is null then 'capability:env' end)
                as required,
              count(*) filter (where state = 'PENDING' and not_before is null)::integer as ready,
              count(*) filter (where state = 'PENDING' and not_before is not null)::integer as waiting,
              count(*) filter (where state in ('ASSIGNED', 'RUNNING') and worker_id is not null)::integer as "inExecution",
              count(*) filter (where not is_admitted)::integer as "heldBack"
         from runs
         left join queue q on q.run_id = id
        where runs.requirement_id is not null
          and (state = 'PENDING' or state in ('ASSIGNED', 'RUNNING') and worker_id is not null)
        group by 1
        order by 1`,
    );
  }

  async function toldByRequirements(): Promise<object[]> {
    const { largest } = await readRequirementDemand(database.dataSource, 100);
    return largest
      .map(({ required, ready, waiting, inExecution, heldBack }) => ({
        required,
        ready: ready.runs,
        waiting: waiting.runs,
        inExecution: inExecution.runs,
        heldBack,
      }))
      .toSorted((a, b) => (a.required.join() < b.required.join() ? -1 : 1));
  }

  const rowsKept = async (): Promise<number> =>
    (
      await rows<object>(
        database.dataSource,
        `select from run_demand_changes
          union all
         select from run_demand
          union all
         select from requirement_demand_changes
          union all
         select from requirement_demand where requirement_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'`,
      )
    ).length;

  /** Ends the back-off of the run, if it is in one. */
  async function elapse(on: RunJournal, id: string): Promise<unknown> {
    await execute(
      database.dataSource,
      'update runs set not_before = created_at where id = $1 and not_before is not null',
      [id],
    );
    return on.change(id, { type: 'elapse' });
  }

  async function reclaim(on: RunJournal, id: string): Promise<unknown> {
    const [run] = await rows<{ attempt: number }>(
      database.dataSource,
      'select attempt from runs where id = $1',
      [id],
    );
    return on.change(id, {
      type: 'reclaim',
      workerId: 'w',
      attempt: run?.attempt ?? 0,
      lastHeartbeatAt: null,
    });
  }

  test('equal what counting the tables says, whatever two processes do at once', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep(), { minLength: 5, maxLength: 40 }), async (steps) => {
        const ids = [(await createOn(journal(), BACK_OFF)).id];
        const carryOut = (step: Step): Promise<unknown> => {
          const on = journal(step.journal);
          const id = ids[step.run % ids.length] ?? '';
          const given = {
            ...SHAPES[step.shape],
            ...OPTIONS[step.options],
            ...(step.backsOff ? BACK_OFF : { maxAttempts: 2 }),
          };
          switch (step.what) {
            case 'create': {
              const fresh = freshRun(given);
              ids.push(fresh.id);
              return on.create(fresh);
            }
            case 'poison':
              return on.create(freshRun({ ...given, image: 'a\u0000b' }));
            case 'claim':
              return on.claim(claimOfAble(step.options));
            case 'elapse':
              return elapse(on, id);
            case 'reclaim':
              return reclaim(on, id);
            case 'retain':
              return retention().runOnce(MUCH_LATER);
            case 'roll up':
              return rollUp().runOnce(MUCH_LATER);
            default:
              return on.change(id, step.what);
          }
        };
        // A handful at once, so that they are decided in groups, of both processes side by side.
        for (let at = 0; at < steps.length; at += AT_ONCE) {
          const outcomes = await Promise.allSettled(steps.slice(at, at + AT_ONCE).map(carryOut));
          for (const { status } of outcomes) seen.add(status);
          const { shapes } = await read();
          for (const { ready, waiting, inExecution } of shapes) {
            if (ready > 0) seen.add('ready');
            if (waiting > 0) seen.add('waiting');
            if (inExecution > 0) seen.add('in execution');
          }
          assert.deepEqual(byShape(shapes), await counted());
          const told = await toldByRequirements();
          if (told.length > 0) seen.add('with requirements');
          assert.deepEqual(told, await countedByRequirements());
        }
      }),
      { numRuns: SCENES, seed: testSeed(20_261_122) },
    );
    const all = ['fulfilled', 'in execution', 'ready', 'rejected', 'waiting', 'with requirements'];
    assert.deepEqual([...seen].toSorted(), all);
  });

  test('never lose a run from sight while several processes move runs and sum the counts up', async () => {
    const connections = await Promise.all(Array.from({ length: 4 }, () => database.open(2)));
    const racing = connections.map((source) => journalOn(source).journal);
    const runs = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        journal(n % 2).create(freshRun({ ...SHAPES[n % 3], maxAttempts: 1000, backoffS: 3600 })),
      ),
    );
    const ids = runs.map((effect) => ('run' in effect ? effect.run.id : effect.replayOf));
    const over = new AbortController();
    const move = async (on: RunJournal, n: number): Promise<void> => {
      for (let round = 0; round < 12; round += 1) {
        const claimed = await Promise.all(Array.from({ length: 5 }, () => claimOn(on, `w-${n}`)));
        const failed = claimed.flat().map(({ run }) => run.id);
        await Promise.all(failed.map((id) => on.change(id, eventOf('FAILED'))));
        await Promise.allSettled(ids.slice(n * 10, n * 10 + 10).map((id) => elapse(on, id)));
      }
    };
    const watch = async (): Promise<number> => {
      let looks = 0;
      for (; !over.signal.aborted; looks += 1) {
        const { ready, waiting, inExecution } = await read();
        assert.equal(ready.runs + waiting.runs + inExecution.runs, 40);
        for (const source of connections) await rollUp(source).runOnce(MUCH_LATER);
      }
      return looks;
    };
    const watching = watch();
    try {
      await Promise.all(racing.map(move));
    } finally {
      over.abort();
    }
    assert.ok((await watching) > 3);
    assert.deepEqual(byShape((await read()).shapes), await counted());
  });
});

/** A claim of a worker that has, for some of the options, all that runs require. */
function claimOfAble(options: number): Claim {
  const claim = claimOf('w');
  const able = { tags: ['gpu'], capabilities: ['env'] };
  const findClaiming: ClaimContext['findClaiming'] = async (ids, executor) => {
    const found = await claim.context.findClaiming(ids, executor);
    return new Map([...found].map(([id, worker]) => [id, { ...worker, ...able }]));
  };
  return options % 2 === 0 ? claim : { ...claim, context: { ...claim.context, findClaiming } };
}

function byShape(shapes: readonly object[]): object[] {
  return shapes.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

const PAYLOADS: Readonly<Record<string, Record<string, string | boolean>>> = {
  STARTED: { worker_id: 'w' },
  RETRIED: { force: true },
};

function eventOf(type: string): RunCommand {
  return eventCommand({ type, msg: '', payload: PAYLOADS[type] ?? {} });
}

function patchTo(patch: {
  readonly state: RunState | undefined;
  readonly priority: number | undefined;
}): RunCommand {
  return { type: 'patch', keyName: 'k', outputs: undefined, ...patch };
}
