import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { rows } from '../../../src/database/sql/sql.js';
import {
  addRunCounts,
  RunCountsRepository,
  type RunCounts,
  StateCountDelta,
} from '../../../src/runs/counts/run-counts.repository.js';
import { RunCountsRollUp } from '../../../src/runs/counts/run-counts.roll-up.js';
import { RUN_STATES, type RunState } from '../../../src/runs/machine/run-state.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import {
  claimOf,
  claimOn,
  createOn,
  eventCommand,
  freshRun,
  journalOn,
  openJournal,
} from '../../support/runs/journal.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NONE = { PENDING: 0, ASSIGNED: 0, RUNNING: 0, COMPLETED: 0, FAILED: 0, CANCELLED: 0 };
const SCENES = atDepth({ fast: 40, all: 60 });
const AT_ONCE = 6;

/** What a command of a random sequence is about: the n-th run that there is. */
interface Step {
  readonly journal: number;
  readonly run: number;
  readonly what: 'create' | 'claim' | RunCommand;
}

function anyStep(): fc.Arbitrary<Step> {
  const reported = fc.constantFrom(
    eventOf('STARTED', { worker_id: 'w' }),
    eventOf('COMPLETED'),
    eventOf('FAILED'),
    eventOf('CANCELLED'),
    eventOf('RETRIED', { force: true }),
    eventOf('RETRIED', { force: false }),
    eventOf('NOTE'),
  );
  const patched = fc.constantFrom(...RUN_STATES).map(patchTo);
  return fc.record({
    journal: fc.nat({ max: 1 }),
    run: fc.nat({ max: 7 }),
    what: fc.oneof(
      { weight: 3, arbitrary: fc.constant('create' as const) },
      { weight: 4, arbitrary: fc.constant('claim' as const) },
      { weight: 8, arbitrary: reported.map((make) => make()) },
      { weight: 2, arbitrary: patched },
    ),
  });
}

describe('the counts of runs', () => {
  const database = useTestDatabase();
  let journals: RunJournal[];
  const counts = new RunCountsRepository();

  beforeAll(async () => {
    const sources = [await openJournal(database), await openJournal(database)];
    journals = sources.map((source) => journalOn(source).journal);
  });
  afterEach(() =>
    database.dataSource.query(
      'truncate runs, dependencies, queue, run_timers, events, attempts, run_counts, idempotency_keys, feed_topics, feed_entries',
    ),
  );

  const read = (): Promise<RunCounts> => counts.read(database.dataSource, 60);
  const journal = (n = 0): RunJournal => {
    const found = journals[n];
    assert.ok(found);
    return found;
  };

  /** What counting the table says. */
  async function counted(): Promise<Record<string, number>> {
    const found = await rows<{ state: string; count: number }>(
      database.dataSource,
      'select state, count(*)::integer as count from runs group by state',
    );
    return { ...NONE, ...Object.fromEntries(found.map(({ state, count }) => [state, count])) };
  }

  const rollUp = (source = database.dataSource): RunCountsRollUp => new RunCountsRollUp(source);

  const rowsKept = async (): Promise<number> =>
    (await rows<object>(database.dataSource, 'select 1 from run_counts')).length;

  /** Counts a run that was created so many minutes before `now` and is in the state. */
  async function put(now: Date, minutes: number, state: RunState): Promise<void> {
    const delta = new StateCountDelta();
    delta.create(1);
    delta.move('PENDING', state);
    const at = new Date(now.getTime() - minutes * 60_000);
    await addRunCounts(database.dataSource, delta, at);
  }

  test('equal what counting the table says, whatever two processes do at once', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep(), { minLength: 5, maxLength: 40 }), async (steps) => {
        const ids = [(await createOn(journal(), { maxAttempts: 2 })).id];
        const carryOut = (step: Step): Promise<unknown> => {
          const on = journal(step.journal);
          if (step.what === 'claim') return claimOn(on, 'w');
          if (step.what !== 'create') return on.change(ids[step.run % ids.length] ?? '', step.what);
          const fresh = freshRun({ maxAttempts: 2 });
          ids.push(fresh.id);
          return on.create(fresh);
        };
        // A handful at once, so that they are decided in groups, of both processes side by side.
        for (let at = 0; at < steps.length; at += AT_ONCE) {
          const outcomes = await Promise.allSettled(steps.slice(at, at + AT_ONCE).map(carryOut));
          for (const { status } of outcomes) seen.add(status);
          const { states } = await read();
          for (const [state, count] of Object.entries(states)) if (count > 0) seen.add(state);
          assert.deepEqual(states, await counted());
        }
      }),
      { numRuns: SCENES, seed: testSeed(20_261_122) },
    );
    assert.deepEqual([...seen].toSorted(), [...RUN_STATES, 'fulfilled', 'rejected'].toSorted());
  });

  test('hold creations and ends of the last hour by the minute, with nothing where nothing happened', async () => {
    const run = await createOn(journal());
    await createOn(journal());
    await claimOn(journal(), 'w');
    await journal().change(run.id, eventOf('COMPLETED')());
    await journal(1).change(run.id, eventOf('RETRIED', { force: true })());
    await journal(1).change(run.id, eventOf('CANCELLED')());
    const { minutes, at, states } = await read();
    assert.deepEqual(states, { ...NONE, PENDING: 1, CANCELLED: 1 });
    assert.equal(minutes.length, 60);
    assert.deepEqual(
      minutes.map(({ minute }) => minute.getTime()),
      minutes.map((_, i) => Math.floor(at.getTime() / 60_000) * 60_000 - (59 - i) * 60_000),
    );
    const sum = (of: (minute: RunCounts['minutes'][number]) => number): number =>
      minutes.reduce((total, minute) => total + of(minute), 0);
    assert.equal(
      sum(({ created }) => created),
      2,
    );
    assert.equal(
      sum(({ completed }) => completed),
      1,
      'a run that is retried did end',
    );
    assert.equal(
      sum(({ cancelled }) => cancelled),
      1,
    );
    assert.equal(
      sum(({ failed }) => failed),
      0,
    );
  });

  test('count a command that is sent again once', async () => {
    const idempotency = { scope: 'k', requestHash: 'h' };
    const fresh = freshRun();
    await Promise.all([0, 1, 0, 1].map((n) => journal(n).create(fresh, { idempotency })));
    const claim = { ...claimOf('w'), idempotency: { scope: 'w', requestHash: 'h' } };
    for (const n of [0, 1]) assert.equal((await journal(n).claim(claim)).runs.length, 1);
    assert.deepEqual((await read()).states, { ...NONE, ASSIGNED: 1 });
    const cancel = { scope: 'c', requestHash: 'h' };
    await Promise.all(
      [0, 1, 0, 1].map((n) => journal(n).change(fresh.id, eventOf('CANCELLED')(), { idempotency: cancel })),
    );
    const { states, minutes } = await read();
    assert.deepEqual(states, { ...NONE, CANCELLED: 1 });
    assert.equal(
      minutes.reduce((total, { created, cancelled }) => total + created * 10 + cancelled, 0),
      11,
    );
  });

  test('count nothing twice when a group fails and its members are tried one by one', async () => {
    const poison = freshRun({ image: 'a\u0000b' });
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 5 }, () => journal().create(freshRun())),
      journal().create(poison),
      ...Array.from({ length: 5 }, () => journal().create(freshRun())),
    ]);
    assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1);
    assert.deepEqual((await read()).states, { ...NONE, PENDING: 10 });
    assert.deepEqual((await read()).states, await counted());
  });

  describe('of minutes that are no longer shown', () => {
    test('are summed up in one row, seconds in minutes, and nothing that is shown changes', async () => {
      const { at: now } = await read();
      for (const minutes of [0, 1, 59, 60, 61, 200, 20_000]) await put(now, minutes, 'COMPLETED');
      await put(now, 300, 'FAILED');
      const earlier = await read();
      assert.equal(await rollUp().runOnce(now), 6, 'all but the last minutes');
      assert.equal(await rollUp().runOnce(now), 0);
      const later = await read();
      assert.deepEqual(later.states, { ...NONE, COMPLETED: 7, FAILED: 1 });
      assert.deepEqual(later.states, earlier.states);
      assert.deepEqual(
        later.minutes.filter(({ created }) => created > 0).length,
        earlier.minutes.filter(({ created }) => created > 0).length,
      );
      assert.equal(await rollUp().runOnce(new Date(now.getTime() + 3_700_000)), 4);
      assert.equal(await rowsKept(), 1, 'the sum alone is left');
      assert.deepEqual((await read()).states, later.states);
    });

    test('stay exact while processes roll up and count at once', async () => {
      const { at: now } = await read();
      const other = await database.open();
      const work = Array.from({ length: 60 }, async (_, n) => {
        await put(now, 61 + (n % 5), n % 2 === 0 ? 'COMPLETED' : 'RUNNING');
        await rollUp(n % 2 === 0 ? database.dataSource : other).runOnce(now);
      });
      await Promise.all(work);
      assert.deepEqual((await read()).states, { ...NONE, COMPLETED: 30, RUNNING: 30 });
      await rollUp().runOnce(now);
      assert.equal(await rowsKept(), 1);
      assert.deepEqual((await read()).states, { ...NONE, COMPLETED: 30, RUNNING: 30 });
    });
  });
});

function eventOf(type: string, payload: Record<string, string | boolean> = {}): () => RunCommand {
  return () => eventCommand({ type, msg: '', payload });
}

function patchTo(state: RunState): RunCommand {
  return {
    type: 'patch',
    keyName: 'k',
    state,
    priority: undefined,
    outputs: undefined,
  };
}
