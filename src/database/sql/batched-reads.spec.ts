import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'vitest';
import { BatchedReads } from './batched-reads.js';

interface Statement {
  readonly keys: readonly string[];
  readonly answer: (values: ReadonlyMap<string, string>) => void;
  readonly fail: (error: Error) => void;
}

function batched(): { readonly reads: BatchedReads<string, string>; readonly statements: Statement[] } {
  const statements: Statement[] = [];
  const reads = new BatchedReads<string, string>(
    (keys) => new Promise((succeed, fail) => statements.push({ keys, answer: succeed, fail })),
  );
  return { reads, statements };
}

/** Every key with itself in capitals. */
function answer({ keys, answer: resolve }: Statement | undefined = assert.fail('no statement')): void {
  resolve(new Map(keys.map((key) => [key, key.toUpperCase()])));
}

describe('batched reads', () => {
  test('loads of one turn share a statement, each with its own value', async () => {
    const { reads, statements } = batched();
    const loads = ['a', 'b', 'a'].map((key) => reads.load(key));
    await nextTurn();
    assert.deepEqual(
      statements.map(({ keys }) => keys),
      [['a', 'b']],
    );
    answer(statements[0]);
    assert.deepEqual(await Promise.all(loads), ['A', 'B', 'A']);
  });

  test('a key without a value is undefined and does not fail the others', async () => {
    const { reads, statements } = batched();
    const loads = [reads.load('a'), reads.load('b')];
    await nextTurn();
    statements[0]?.answer(new Map([['b', 'B']]));
    assert.deepEqual(await Promise.all(loads), [undefined, 'B']);
  });

  test('a load during a statement is read by a later one', async () => {
    const { reads, statements } = batched();
    const first = reads.load('a');
    await nextTurn();
    const second = reads.load('a');
    await nextTurn();
    assert.equal(statements.length, 2);
    statements[0]?.answer(new Map([['a', 'before']]));
    statements[1]?.answer(new Map([['a', 'after']]));
    assert.deepEqual([await first, await second], ['before', 'after']);
  });

  test('at most two statements are under way; loads meanwhile share the next', async () => {
    const { reads, statements } = batched();
    const loads: Promise<string | undefined>[] = [];
    for (const key of 'abcde') {
      loads.push(reads.load(key));
      await nextTurn();
    }
    assert.deepEqual(
      statements.map(({ keys }) => keys),
      [['a'], ['b']],
    );
    answer(statements[0]);
    await nextTurn();
    assert.deepEqual(statements[2]?.keys, ['c', 'd', 'e']);
    answer(statements[1]);
    answer(statements[2]);
    assert.deepEqual(await Promise.all(loads), [...'ABCDE']);
  });

  test('a failed statement fails its loads only, and frees its place', async () => {
    const { reads, statements } = batched();
    const failed = [reads.load('a'), reads.load('b')].map((load) => assert.rejects(load, /away/));
    await nextTurn();
    statements[0]?.fail(new Error('away'));
    await Promise.all(failed);
    for (let n = 1; n <= 4; n += 1) {
      const load = reads.load('c');
      await nextTurn();
      answer(statements[n]);
      assert.equal(await load, 'C');
    }
  });

  test('a statement has at most 200 keys', async () => {
    const { reads, statements } = batched();
    const keys = Array.from({ length: 450 }, (_, n) => `k${n}`);
    const loads = keys.map((key) => reads.load(key));
    for (let n = 0; n < 3; n += 1) {
      await nextTurn();
      answer(statements[n]);
    }
    await Promise.all(loads);
    assert.deepEqual(
      statements.map((statement) => statement.keys.length),
      [200, 200, 50],
    );
  });
});
