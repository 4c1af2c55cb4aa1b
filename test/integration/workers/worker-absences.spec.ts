import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { beat, memoryBench, sharedBench, type PoolBench } from '../../support/workers/worker-pools.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const TIMEOUT_MS = 60_000;
const AWAY_MS = 5 * TIMEOUT_MS;
/** Longer than the operations between two moves of the clock take. */
const SLACK_MS = 10_000;

for (const [kind, open] of [
  ['in memory', memoryBench],
  ['shared', sharedBench],
] as const) {
  describe(`absences of workers, in the pool ${kind}`, () => {
    const database = useTestDatabase();
    let bench: PoolBench;

    beforeAll(async () => {
      bench = await open(database.dataSource, TIMEOUT_MS);
    });
    beforeEach(() => bench.clear());

    test('a worker that says that it will be away is neither active nor silent until then, then silent at once', async () => {
      await bench.pool.heartbeat(beat('w', ['r']));
      const leaving = await bench.pool.heartbeat({ ...beat('w', ['r']), awayMs: AWAY_MS });
      assert.equal(leaving.isActive, false);
      assert.equal(leaving.awayUntil?.getTime(), leaving.lastHeartbeatAt.getTime() + AWAY_MS);
      assert.deepEqual(await bench.pool.count(), {
        active: 0,
        draining: 0,
        not_claiming: 0,
        away: 1,
        stale: 0,
      });
      await bench.pass(AWAY_MS - SLACK_MS);
      assert.deepEqual(await bench.pool.findSilent(['w']), []);
      assert.deepEqual(await bench.pool.findUnreported([{ runId: 'r', workerId: 'w' }]), []);
      assert.equal((await bench.pool.find('w'))?.awayUntil !== null, true);
      await bench.pass(SLACK_MS + 1);
      assert.deepEqual(
        (await bench.pool.findSilent(['w'])).map(({ id }) => id),
        ['w'],
      );
      assert.deepEqual(await bench.pool.count(), {
        active: 0,
        draining: 0,
        not_claiming: 0,
        away: 0,
        stale: 1,
      });
    });

    test('its next heartbeat ends the absence, and a removal does', async () => {
      await bench.pool.heartbeat({ ...beat('w'), awayMs: AWAY_MS });
      await bench.pool.heartbeat({ ...beat('v'), awayMs: AWAY_MS });
      const back = await bench.pool.heartbeat(beat('w'));
      assert.deepEqual([back.isActive, back.awayUntil], [true, null]);
      await bench.pool.remove('v');
      await bench.pass(TIMEOUT_MS + 1);
      const silent = await bench.pool.findSilent(['v', 'w']);
      assert.deepEqual(silent.map(({ id }) => id).toSorted(), ['v', 'w']);
    });

    test('survives a restart that forgets the worker, and leaves nothing behind when it is over', async () => {
      await bench.pool.heartbeat({ ...beat('w', ['r']), awayMs: AWAY_MS });
      const pool = await bench.restart();
      await bench.pass(AWAY_MS - SLACK_MS);
      assert.deepEqual(await pool.findSilent(['w', 'v']), [{ id: 'v', lastHeartbeatAt: null }]);
      await bench.pass(SLACK_MS + 1);
      assert.deepEqual(await pool.findSilent(['w']), [{ id: 'w', lastHeartbeatAt: null }]);
      await pool.forget();
      assert.deepEqual(await database.dataSource.query('select * from worker_absences'), []);
    });
  });
}
