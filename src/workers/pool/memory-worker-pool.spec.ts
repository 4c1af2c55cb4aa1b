import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FORGET_AFTER_MS, MemoryWorkerPool } from './memory-worker-pool.js';
import type { Heartbeat } from './worker-pool.js';

const TIMEOUT_MS = 1500;
const START = Date.parse('2026-01-01T00:00:00.000Z');

/** A pool whose time stands still until it is moved. */
function poolAt(): { pool: MemoryWorkerPool; pass: (ms: number) => void } {
  let now = START;
  return {
    pool: new MemoryWorkerPool(TIMEOUT_MS, () => now),
    pass: (ms) => {
      now += ms;
    },
  };
}

function beat(id: string, more: Partial<Heartbeat> = {}): Heartbeat {
  return { id, cpuCores: 1, ramMb: 1, gpus: [], tags: [], ...more };
}

test('a worker is active up to the timeout and not a millisecond longer', async () => {
  const { pool, pass } = poolAt();
  assert.equal((await pool.heartbeat(beat('w'))).isActive, true);
  pass(TIMEOUT_MS);
  assert.equal((await pool.find('w'))?.isActive, true);
  pass(1);
  assert.equal((await pool.find('w'))?.isActive, false);
  assert.deepEqual(
    (await pool.list()).map(({ id, isActive }) => [id, isActive]),
    [['w', false]],
  );
});

test('a heartbeat makes a silent worker active again and keeps the time of its first', async () => {
  const { pool, pass } = poolAt();
  await pool.heartbeat(beat('w'));
  pass(10 * TIMEOUT_MS);
  const worker = await pool.heartbeat(beat('w'));
  assert.deepEqual(
    [worker.isActive, worker.createdAt.getTime(), worker.lastHeartbeatAt.getTime()],
    [true, START, START + 10 * TIMEOUT_MS],
  );
});

test('a heartbeat without running runs keeps what was said before', async () => {
  const { pool } = poolAt();
  const runningOps = [{ id: 'r', image: 'i', inputs: {}, constraints: {} }];
  await pool.heartbeat(beat('w', { runningOps }));
  assert.deepEqual((await pool.heartbeat(beat('w'))).runningOps, runningOps);
  assert.deepEqual((await pool.heartbeat(beat('w', { runningOps: [] }))).runningOps, []);
});

test('a worker that was silent for 24 hours is forgotten, and registers anew', async () => {
  const { pool, pass } = poolAt();
  await pool.heartbeat(beat('old'));
  pass(1);
  await pool.heartbeat(beat('young'));
  pass(FORGET_AFTER_MS - 1);
  assert.equal(await pool.find('old'), null);
  assert.deepEqual(
    (await pool.list()).map(({ id }) => id),
    ['young'],
  );
  const worker = await pool.heartbeat(beat('old'));
  assert.equal(worker.createdAt.getTime(), START + FORGET_AFTER_MS);
});

test('a worker that never reported is nobody', async () => {
  const { pool } = poolAt();
  assert.equal(await pool.find('w'), null);
  assert.deepEqual(await pool.list(), []);
});

test('workers are listed by id, whatever the order of their heartbeats', async () => {
  const { pool } = poolAt();
  for (const id of ['b', 'a', 'c', 'a']) await pool.heartbeat(beat(id));
  assert.deepEqual(
    (await pool.list()).map(({ id }) => id),
    ['a', 'b', 'c'],
  );
});
