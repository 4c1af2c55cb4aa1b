import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import type { Claim, ClaimOutcome } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { SchedulingStrategy } from '../../../src/runs/scheduling-strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { claimOf, createOn, journalOn, poolOfAny } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const idsOf = ({ runs }: ClaimOutcome): string[] => runs.map(({ run }) => run.id);

const pool = poolOfAny({ cpuCores: 64 });

describe('claims of several runs in one commit', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  beforeAll(() => {
    ({ journal } = journalOn(database.dataSource));
  });
  beforeEach(() => execute(database.dataSource, 'truncate runs, dependencies, attempts, events, queue'));

  const create = async (count: number): Promise<string[]> => {
    const created = await Promise.all(Array.from({ length: count }, () => createOn(journal)));
    return created.map(({ id }) => id).toSorted();
  };

  /** Hands the claims in at once, so that one commit serves them. */
  const claimAll = (claims: readonly Pick<Claim, 'workerId' | 'max'>[], on = journal) =>
    Promise.all(claims.map(({ workerId, ...claim }) => on.claim({ ...claimOf(workerId), ...claim })));
  const journalBy = (strategy: SchedulingStrategy): RunJournal =>
    journalOn(database.dataSource, { strategy, pool }).journal;

  test('are served in order: the first claim gets the first runs, as many as it asks for', async () => {
    const ids = await create(10);
    const outcomes = await claimAll([
      { workerId: 'a', max: 3 },
      { workerId: 'b' },
      { workerId: 'a', max: 4 },
      { workerId: 'c', max: 5 },
      { workerId: 'd' },
    ]);
    assert.deepEqual(outcomes.map(idsOf), [
      ids.slice(0, 3),
      ids.slice(3, 4),
      ids.slice(4, 8),
      ids.slice(8),
      [],
    ]);
    assert.deepEqual(
      outcomes.map(({ kind }) => kind),
      ['served', 'served', 'served', 'served', 'empty'],
    );
  });

  test('share the limit of one commit, so that each gets some', async () => {
    const ids = await create(2100);
    const outcomes = await claimAll(
      Array.from({ length: 50 }, (_, i) => ({ workerId: `w${i}`, ...(i === 7 ? {} : { max: 100 }) })),
    );
    assert.deepEqual(
      outcomes.map(({ runs }) => runs.length),
      outcomes.map((_, i) => (i === 7 ? 1 : 40)),
    );
    assert.deepEqual(outcomes.flatMap(idsOf), ids.slice(0, 49 * 40 + 1));
  });

  test('get no more than they ask for from a strategy that ignores max; the rest stays in the queue', async () => {
    const ids = await create(6);
    const heedless: SchedulingStrategy = {
      name: 'heedless',
      candidatesFor: () => ({ limit: 100 }),
      obstacles: () => [],
      choose: (_, candidates) => ({
        assignments: [
          ...candidates.map(({ id }) => ({ claim: 0, runId: id, gpuId: null })),
          { claim: 1, runId: ids[4] ?? '', gpuId: null },
          { claim: 1, runId: ids[0] ?? '', gpuId: null },
        ],
      }),
    };
    const claims = [
      { workerId: 'a', max: 2 },
      { workerId: 'b', max: 5 },
    ];
    const outcomes = await claimAll(claims, journalBy(heedless));
    assert.deepEqual(outcomes.map(idsOf), [ids.slice(0, 2), ids.slice(4, 5)]);
    const left = await rows<{ id: string }>(database.dataSource, 'select run_id as id from queue order by 1');
    assert.deepEqual(
      left.map(({ id }) => id),
      [ids[2], ids[3], ids[5]],
    );
  });

  test('pass their remaining max to the strategy when it chooses again', async () => {
    const ids = await create(5);
    const told: (number | undefined)[][] = [];
    const fit = new FitStrategy(300);
    const watched: SchedulingStrategy = {
      name: 'watched',
      candidatesFor: (...question) => fit.candidatesFor(...question),
      obstacles: (...question) => fit.obstacles(...question),
      choose: (claimants, ...question) => {
        told.push(claimants.map(({ max }) => max));
        return fit.choose(claimants, ...question);
      },
    };
    const holder = database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query('select 1 from runs where id = $1 for update', [ids[1]]);
    const [outcome] = await claimAll([{ workerId: 'a', max: 3 }], journalBy(watched));
    await holder.rollbackTransaction();
    await holder.release();
    assert.deepEqual(told, [[3], [1]]);
    assert.deepEqual(outcome && idsOf(outcome), [ids[0], ids[2], ids[3]]);
  });
});
