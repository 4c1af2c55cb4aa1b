import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listHeldRuns } from './heartbeat-loop.js';

const run = (id: string, text: string) => ({
  id,
  image: 'i',
  inputs: { text },
  constraints: { ramMb: 0, vramMb: 0, cpu: 0, gpuId: null },
  attempt: 1,
});

test('lists every run once, with inputs only while they stay small altogether', () => {
  const runs = [run('a', 'x'.repeat(50)), run('b', 'x'.repeat(500)), run('c', 'x'), run('a', '')];
  const listed = listHeldRuns(runs, 100);
  assert.deepEqual(
    listed.map(({ id, inputs }) => [id, Object.keys(inputs).length]),
    [
      ['a', 1],
      ['b', 0],
      ['c', 1],
    ],
  );
  assert.ok(listed.every((one) => !('attempt' in one)));
});
