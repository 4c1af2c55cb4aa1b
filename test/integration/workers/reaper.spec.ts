import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { createOn } from '../../support/runs/journal.js';
import { forgetEverything, POOLS, ReaperScene, TIMEOUT_MS } from '../../support/workers/reaper-scene.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** By the shared pool's clock time goes on by itself: room for it where a limit is not to be reached. */
const ROOM_MS = 60_000;

const NONE = { silent: 0, unreported: 0, refused: 0, failed: 0 };

for (const pool of POOLS) {
  describe(`the reaper, with the ${pool} pool,`, () => {
    const database = useTestDatabase();
    let scene: ReaperScene;

    beforeEach(async () => {
      await forgetEverything(database.dataSource);
      scene = await ReaperScene.open(database.dataSource, { pool });
    });

    test('keeps a run whose worker heartbeats in time, whatever runs it reports', async () => {
      const { id } = await scene.assigned('w');
      for (let i = 0; i < 10; i += 1) {
        await scene.letPass(TIMEOUT_MS - ROOM_MS);
        assert.deepEqual(await scene.reaper.runOnce(), NONE);
        await scene.heartbeat('w');
        assert.deepEqual(await scene.reaper.runOnce(), NONE);
      }
      assert.deepEqual([(await scene.get(id)).state, (await scene.get(id)).attempt], ['ASSIGNED', 1]);
    });

    test('reclaims the runs of a worker that has been silent for longer than the timeout, and only these', async () => {
      const assigned = await scene.assigned('lost');
      const running = await scene.assigned('lost');
      await scene.event(running.id, 'STARTED', { workerId: 'lost' });
      const kept = await scene.assigned('well');
      await scene.letPass(TIMEOUT_MS - ROOM_MS);
      await scene.heartbeat('well');
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await scene.letPass(ROOM_MS + 1);
      const lastHeartbeatAt = (await scene.pool.find('lost'))?.lastHeartbeatAt.toISOString();
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 2 });
      for (const { id } of [assigned, running]) {
        const { state, attempt, workerId, failures, reclaims } = await scene.get(id);
        assert.deepEqual([state, attempt, workerId, failures, reclaims], ['PENDING', 2, null, 0, 1]);
        const entry = (await scene.timeline(id)).at(-1);
        assert.deepEqual(entry, {
          type: 'RECLAIMED',
          msg: "Worker 'lost' lost",
          payload: { worker_id: 'lost', last_heartbeat_at: lastHeartbeatAt },
          attempt: 1,
        });
      }
      assert.equal((await scene.get(kept.id)).workerId, 'well');
      assert.deepEqual((await scene.claim('well')).length, 1, 'it is claimable at once');
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await checkInvariants(database.dataSource);
    });

    test('keeps the runs of a worker that is away until then, and for a new one of its processes', async () => {
      const AWAY_MS = 5 * TIMEOUT_MS;
      const runs = [await scene.assigned('returns'), await scene.assigned('stays')];
      const [kept, lost] = runs.map(({ id }) => id);
      assert.ok(kept !== undefined && lost !== undefined);
      await scene.heartbeat('returns', [kept], AWAY_MS);
      await scene.heartbeat('stays', [lost], AWAY_MS);
      await scene.letPass(AWAY_MS - ROOM_MS);
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await scene.heartbeat('returns', [kept]);
      await scene.letPass(ROOM_MS + 1);
      await scene.heartbeat('returns', [kept]);
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
      assert.deepEqual(
        [(await scene.get(kept)).workerId, (await scene.get(lost)).workerId],
        ['returns', null],
      );
      await scene.letPass(TIMEOUT_MS + 1);
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 }, 'it is silent as before');
    });

    test('never reclaims a run without a worker', async () => {
      const { id } = await createOn(scene.journal);
      await scene.journal.change(id, { type: 'patch', keyName: 'k', state: 'RUNNING' });
      await scene.letPass(100 * TIMEOUT_MS);
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      assert.equal((await scene.get(id)).state, 'RUNNING');
    });

    test('gives a worker that claimed without a heartbeat one timeout to send one', async () => {
      const { id } = await createOn(scene.journal);
      await scene.journal.change(id, { type: 'patch', keyName: 'k', state: 'RUNNING' });
      await scene.event(id, 'STARTED', { workerId: 'stranger' });
      assert.equal((await scene.get(id)).workerId, 'stranger');
      await scene.letPass(TIMEOUT_MS - ROOM_MS);
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await scene.letPass(ROOM_MS + 1);
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
      assert.deepEqual((await scene.timeline(id)).at(-1)?.payload, {
        worker_id: 'stranger',
        last_heartbeat_at: null,
      });
    });

    describe('a worker that does not report one of its runs', () => {
      const HALF = TIMEOUT_MS / 2;

      test('loses it after a timeout without a report that names it', async () => {
        const forgotten = await scene.assigned('w');
        const known = await scene.assigned('w');
        await scene.letPass(HALF);
        await scene.heartbeat('w', [known.id]);
        await scene.letPass(HALF - ROOM_MS);
        await scene.heartbeat('w', [known.id]);
        assert.deepEqual(await scene.reaper.runOnce(), NONE, 'assigned more recently than the timeout');
        await scene.letPass(ROOM_MS + 1);
        assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, unreported: 1 });
        const { state, attempt } = await scene.get(forgotten.id);
        assert.deepEqual([state, attempt], ['PENDING', 2]);
        assert.equal((await scene.get(known.id)).workerId, 'w');
        const { payload } = (await scene.timeline(forgotten.id))[0] ?? {};
        const lastHeartbeatAt = (await scene.pool.find('w'))?.lastHeartbeatAt.toISOString();
        assert.deepEqual(payload, { worker_id: 'w', last_heartbeat_at: lastHeartbeatAt });
      });
    });

    if (pool === 'shared') {
      test('keeps its run after a crash of the database when it reports within the timeout', async () => {
        const kept = await scene.assigned('well');
        const gone = await scene.assigned('dead');
        await scene.letPass(TIMEOUT_MS / 2);
        await execute(database.dataSource, 'truncate worker_pool, worker_descriptions, worker_pool_epoch');
        assert.deepEqual(await scene.reaper.runOnce(), NONE);
        await scene.letPass(TIMEOUT_MS - ROOM_MS);
        assert.deepEqual(
          await scene.reaper.runOnce(),
          NONE,
          'both have held their runs for longer than the timeout',
        );
        await scene.heartbeat('well');
        await scene.letPass(ROOM_MS + 1);
        assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
        assert.equal((await scene.get(kept.id)).workerId, 'well');
        assert.equal((await scene.get(gone.id)).state, 'PENDING');
      });
    }
  });
}
