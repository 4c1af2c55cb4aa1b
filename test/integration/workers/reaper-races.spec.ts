import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { rows } from '../../../src/database/sql/sql.js';
import { RunRejected } from '../../../src/runs/run.errors.js';
import {
  forgetEverything,
  InterruptedRuns,
  ReaperScene,
  TIMEOUT_MS,
} from '../../support/workers/reaper-scene.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NONE = { silent: 0, unreported: 0, refused: 0, failed: 0 };

/** Two of three racers, some milliseconds after the reapers have set off. */
async function race(
  id: string,
  worker: string,
  sides: readonly [ReaperScene, ReaperScene],
  i: number,
): Promise<{ readonly id: string; readonly accepted: readonly string[] }> {
  const racers = [
    ['COMPLETED', () => sides[0].event(id, 'COMPLETED', { workerId: worker, attempt: 1 })],
    ['CANCELLED', () => sides[1].event(id, 'CANCELLED')],
    [
      'PATCH',
      () =>
        sides[i % 2 === 0 ? 0 : 1].journal.change(id, { type: 'patch', keyName: 'k', state: 'CANCELLED' }),
    ],
  ] as const;
  const accepted: string[] = [];
  await Promise.all(
    racers
      .filter((_, n) => n !== i % 3)
      .map(async ([what, act]) => {
        await sleep(Math.random() * 40);
        await act().then(
          () => accepted.push(what),
          (error: unknown) => assert.ok(error instanceof RunRejected, String(error)),
        );
      }),
  );
  return { id, accepted };
}

describe('concurrent reapers', () => {
  const database = useTestDatabase();
  let runs: InterruptedRuns;
  let scene: ReaperScene;

  beforeEach(async () => {
    await forgetEverything(database.dataSource);
    runs = new InterruptedRuns();
    scene = await ReaperScene.open(database.dataSource, { runs });
  });

  test('two reapers at once reclaim each run once', async () => {
    const other = scene.another(await database.open());
    await scene.heartbeat('w');
    const ids = await scene.assignMany('w', 450);
    await scene.letPass(TIMEOUT_MS + 1);
    other.passHere(TIMEOUT_MS + 1);
    const [mine, theirs] = await Promise.all([scene.reaper.runOnce(), other.reaper.runOnce()]);
    assert.equal(mine.silent + theirs.silent, ids.length);
    assert.equal(mine.failed + theirs.failed, 0);
    const [{ once } = {}] = await rows<{ once: boolean }>(
      database.dataSource,
      `select bool_and(attempt = 2 and reclaims = 1 and event_count = 1 and state = 'PENDING') as once from runs`,
    );
    assert.equal(once, true);
    await checkInvariants(database.dataSource);
  });

  test('COMPLETED, cancel, PATCH and two reapers on 50 lost runs: one wins, and all observers agree', async () => {
    const other = scene.another(await database.open());
    const sides = [scene, other] as const;
    const outcomes = new Set<string>();
    for (let round = 0; round < 5; round += 1) {
      const ids: string[] = [];
      for (let i = 0; i < 10; i += 1) {
        ids.push((await scene.assigned(`w${i}`, { topic: 'races' })).id);
      }
      await scene.letPass(TIMEOUT_MS + 1);
      other.passHere(TIMEOUT_MS + 1);
      const reaping = [scene.reaper.runOnce(), other.reaper.runOnce()] as const;
      const raced = await Promise.all(ids.map((id, i) => race(id, `w${i}`, sides, i)));
      const [mine, theirs] = [await reaping[0], await reaping[1]];
      let reclaimed = 0;
      for (const { id, accepted } of raced) {
        const run = await scene.get(id);
        const types = (await scene.timeline(id)).map(({ type }) => type);
        const losses = types.filter((type) => type === 'RECLAIMED').length;
        assert.ok(losses <= 1, types.join());
        assert.deepEqual([run.attempt, run.reclaims], [1 + losses, losses]);
        assert.deepEqual(
          types.filter((type) => type !== 'RECLAIMED').toSorted(),
          accepted.filter((what) => what !== 'PATCH').toSorted(),
          'what was answered is what happened',
        );
        if (accepted.includes('COMPLETED')) assert.equal(losses, 0, 'a reclaimed attempt completes no more');
        const [winner] = accepted.filter((what) => what !== 'PATCH');
        if (!accepted.includes('PATCH')) assert.equal(run.state, winner ?? 'PENDING');
        else assert.equal(run.state, 'CANCELLED');
        reclaimed += losses;
        outcomes.add([...accepted, ...types].join());
      }
      assert.equal(mine.silent + theirs.silent, reclaimed);
      assert.equal(mine.failed + theirs.failed, 0);
      await forgetEverything(database.dataSource);
    }
    assert.ok(outcomes.size >= 5, `the races went different ways: ${[...outcomes].join(' | ')}`);
  });

  const fasterOnes: readonly (readonly [string, (id: string) => Promise<unknown>])[] = [
    ['the worker completes it', (id) => scene.event(id, 'COMPLETED', { workerId: 'w', attempt: 1 })],
    ['the worker reports its failure', (id) => scene.event(id, 'FAILED', { workerId: 'w', attempt: 1 })],
    ['a user cancels it', (id) => scene.event(id, 'CANCELLED')],
    [
      'an admin takes it back into the queue',
      (id) => scene.journal.change(id, { type: 'patch', keyName: 'k', state: 'PENDING' }),
    ],
    [
      'it is retried, and the same worker has the next attempt',
      async (id) => {
        await retry(id);
        assert.deepEqual(await scene.claim('w'), [id]);
      },
    ],
    [
      'another worker has it',
      async (id) => {
        await scene.journal.change(id, { type: 'patch', keyName: 'k', state: 'PENDING' });
        assert.deepEqual(await scene.claim('other'), [id]);
      },
    ],
    ['another reaper takes it', () => scene.another(database.dataSource).reaper.runOnce()],
  ];

  function retry(id: string): Promise<void> {
    return scene.event(id, 'RETRIED', {}, { force: true });
  }

  for (const [what, act] of fasterOnes) {
    test(`changes nothing of a run that it has found lost when ${what} first`, async () => {
      const { id } = await scene.assigned('w', { topic: 'races' });
      await scene.letPass(TIMEOUT_MS + 1);
      let afterwards = '';
      runs.afterFinding = async () => {
        runs.afterFinding = () => Promise.resolve();
        await act(id);
        afterwards = await scene.everythingOf(id);
      };
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, refused: 1 });
      assert.equal(await scene.everythingOf(id), afterwards);
      await checkInvariants(database.dataSource);
    });
  }

  test('keeps a run that a returned worker was assigned during the search', async () => {
    const old = await scene.assigned('w');
    await scene.letPass(TIMEOUT_MS + 1);
    let fresh = '';
    runs.afterJudging = async () => {
      runs.afterJudging = () => Promise.resolve();
      fresh = (await scene.assigned('w')).id;
    };
    assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
    assert.equal((await scene.get(old.id)).state, 'PENDING');
    assert.equal((await scene.get(fresh)).workerId, 'w');
  });
});
