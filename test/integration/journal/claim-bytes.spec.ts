import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { CONTENDED_REPLAY, type Claim, type ClaimOutcome } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { SchedulingStrategy } from '../../../src/runs/scheduling-strategy.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { claimOf, createOn, journalOn, poolOfAny } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Three runs of 1000 bytes and a bit fit into an answer, and thirteen into the answers of one commit. */
const MAX_ANSWER_BYTES = 3500;
const INPUTS = { text: 'x'.repeat(1000) };

const countsOf = (outcomes: readonly ClaimOutcome[]): number[] => outcomes.map(({ runs }) => runs.length);
const kindsOf = (outcomes: readonly ClaimOutcome[]): string[] => outcomes.map(({ kind }) => kind);
const idsOf = ({ runs }: ClaimOutcome): string[] => runs.map(({ run }) => run.id);

describe('the answers of claims are bounded in bytes', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  const open = (strategy: SchedulingStrategy): RunJournal => {
    const pool = poolOfAny({ cpuCores: 64 });
    return journalOn(database.dataSource, { maxAnswerBytes: MAX_ANSWER_BYTES, strategy, pool }).journal;
  };

  beforeEach(() => {
    journal = open(new DirectStrategy());
  });
  beforeEach(() =>
    execute(database.dataSource, 'truncate runs, dependencies, attempts, events, queue, idempotency_keys'),
  );

  const create = async (count: number, inputs = INPUTS): Promise<string[]> => {
    const created = await Promise.all(Array.from({ length: count }, () => createOn(journal, { inputs })));
    return created.map(({ id }) => id).toSorted();
  };

  const queued = async (): Promise<string[]> => {
    const found = await rows<{ id: string }>(
      database.dataSource,
      `select q.run_id as id from queue q join runs r on r.id = q.run_id where r.state = 'PENDING' order by 1`,
    );
    return found.map(({ id }) => id);
  };

  const claim = (options: Partial<Claim> = {}): Promise<ClaimOutcome> =>
    journal.claim({ ...claimOf('w'), max: 100, ...options });

  /** Claims three runs under a key. */
  const claimOnce = (key: string): Promise<ClaimOutcome> =>
    claim({ workerId: `worker ${key}`, max: 3, idempotency: { scope: key, requestHash: 'hash' } });

  describe.each([new DirectStrategy(), new FitStrategy(300)])('by $name', (strategy) => {
    beforeEach(() => {
      journal = open(strategy);
    });

    test('one answer has the first runs that fit, and the next claims get the others', async () => {
      const ids = await create(8);
      assert.deepEqual(idsOf(await claim()), ids.slice(0, 3));
      assert.deepEqual(await queued(), ids.slice(3));
      assert.deepEqual(idsOf(await claim()), ids.slice(3, 6));
      assert.deepEqual(idsOf(await claim()), ids.slice(6));
      assert.deepEqual(await queued(), []);
    });

    test('a run that is larger than an answer is given, alone', async () => {
      const large = await create(1, { text: 'x'.repeat(9000) });
      const ids = await create(2);
      assert.deepEqual(idsOf(await claim()), large);
      assert.deepEqual(idsOf(await claim()), ids);
    });

    test('the claims of one commit share its bytes; those that get none are contended', async () => {
      const ids = await create(60);
      const workers = Array.from({ length: 20 }, (_, i) => `w${i}`);
      const claimAll = (): Promise<ClaimOutcome[]> =>
        Promise.all(workers.map((workerId) => claim({ workerId, max: 3 })));
      const outcomes = await claimAll();
      assert.deepEqual(countsOf(outcomes), [...workers.slice(0, 13).map(() => 1), 0, 0, 0, 0, 0, 0, 0]);
      assert.deepEqual(
        kindsOf(outcomes.slice(13)),
        Array.from({ length: 7 }, () => 'contended'),
      );
      const taken = outcomes.flatMap(idsOf);
      while (taken.length < ids.length) {
        const next = (await claimAll()).flatMap(idsOf);
        assert.ok(next.length > 0 && next.length <= 13);
        taken.push(...next);
      }
      assert.deepEqual(taken.toSorted(), ids);
    });
  });

  test('repeated claims of one commit share its bytes; the others are tried again, and get the same runs', async () => {
    const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
    await create(18);
    const first: ClaimOutcome[] = [];
    for (const key of keys) first.push(await claimOnce(key));
    assert.deepEqual(countsOf(first), [3, 3, 3, 3, 3, 3]);

    const repeated = await Promise.all(keys.map(claimOnce));
    const [answered, contended] = [repeated.slice(0, 4), repeated.slice(4)];
    assert.deepEqual(kindsOf(answered), ['replayed', 'replayed', 'replayed', 'replayed']);
    assert.deepEqual(answered.map(idsOf), first.slice(0, 4).map(idsOf));
    assert.ok(answered.every(({ runs }) => runs.every(({ inputs }) => inputs['text'] === INPUTS.text)));
    assert.deepEqual(contended, [CONTENDED_REPLAY, CONTENDED_REPLAY]);

    const last = await Promise.all(keys.slice(4).map(claimOnce));
    assert.deepEqual(kindsOf(last), ['replayed', 'replayed']);
    assert.deepEqual(last.map(idsOf), first.slice(4).map(idsOf));
  });
});
