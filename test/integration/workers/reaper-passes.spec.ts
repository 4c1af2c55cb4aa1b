import assert from 'node:assert/strict';
import { beforeEach, describe, onTestFinished, test } from 'vitest';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { WORKERS_PER_PAGE, RUNS_PER_PAGE } from '../../../src/workers/reaper/lost-run-search.js';
import { RUNS_PER_BATCH } from '../../../src/workers/reaper/reaper.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../../src/runs/machine/run.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { until } from '../../support/app/passing-time.js';
import { forgetEverything, ReaperScene, TIMEOUT_MS } from '../../support/workers/reaper-scene.js';
import { addExecutions } from '../../support/runs/executions.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NONE = { silent: 0, unreported: 0, refused: 0, failed: 0 };

const statements = logStatements();

/** How many statements are sent meanwhile. */
async function statementsOf(act: () => Promise<unknown>): Promise<number> {
  statements.length = 0;
  await act();
  return statements.length;
}

/** How many statements it takes to reclaim so many runs of one worker. */
async function costOf(scene: ReaperScene, runs: number): Promise<number> {
  await scene.heartbeat('w');
  await scene.assignMany('w', runs);
  await scene.letPass(TIMEOUT_MS + 1);
  return statementsOf(() => scene.reaper.runOnce());
}

describe('a pass of the reaper', () => {
  const database = useTestDatabase();
  let scene: ReaperScene;

  beforeEach(async () => {
    await forgetEverything(database.dataSource);
    scene = await ReaperScene.open(database.dataSource);
  });

  async function statesOf(ids: readonly string[]): Promise<Record<string, number>> {
    const counted = await rows<{ state: string; n: number }>(
      database.dataSource,
      'select state, count(*)::integer as n from runs where id = any($1::uuid[]) group by state',
      [ids],
    );
    return Object.fromEntries(counted.map(({ state, n }) => [state, n]));
  }

  describe('reclaims nothing', () => {
    test('until one timeout after its server began to listen', async () => {
      const { id } = await scene.assigned('w');
      await scene.letPass(10 * TIMEOUT_MS);
      scene.grace.start();
      await scene.letPass(TIMEOUT_MS - 1);
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await scene.letPass(1);
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
      assert.equal((await scene.get(id)).attempt, 2);
    });

    test('until one timeout after a pause of its process', async () => {
      const { id } = await scene.assigned('w');
      scene.clock.advance(TIMEOUT_MS * 2);
      assert.deepEqual(await scene.reaper.runOnce(), NONE, 'the pass itself notices the pause');
      await scene.heartbeat('w');
      await scene.letPass(TIMEOUT_MS);
      assert.deepEqual(await scene.reaper.runOnce(), NONE, 'the worker has reported in time since');
      await scene.letPass(1);
      assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
      assert.equal((await scene.get(id)).attempt, 2);
    });

    test('when the process was paused in the middle of the pass', async () => {
      await scene.assigned('w');
      await scene.letPass(TIMEOUT_MS);
      const found = scene.reaper.runOnce();
      scene.clock.advance(TIMEOUT_MS);
      assert.deepEqual(await found, NONE);
    });

    test('until one timeout after an outage of the database', async () => {
      const proxy = await DatabaseProxy.open(database.url);
      const dataSource = await connectDatabase(
        {
          url: proxy.url,
          poolSize: 2,
          applicationName: 'longshore test',
          entities: ENTITIES,
          migrations: [],
        },
        { timeoutMs: 120_000 },
      );
      onTestFinished(async () => {
        await dataSource.destroy();
        await proxy.refuse();
      });
      const remote = scene.another(dataSource);
      const { id } = await scene.assigned('w');
      await proxy.refuse();
      await assert.rejects(remote.reaper.runOnce());
      await scene.letPass(5 * TIMEOUT_MS);
      remote.passHere(5 * TIMEOUT_MS);
      await assert.rejects(remote.reaper.runOnce());
      await proxy.allow();
      await until(
        () => execute(dataSource, 'select 1').catch(() => 0),
        (answered) => answered > 0,
      );
      assert.deepEqual(await remote.reaper.runOnce(), NONE);
      remote.passHere(TIMEOUT_MS - 1);
      assert.deepEqual(await remote.reaper.runOnce(), NONE);
      remote.passHere(1);
      assert.deepEqual(await remote.reaper.runOnce(), { ...NONE, silent: 1 });
      assert.equal((await scene.get(id)).attempt, 2);
    });
  });

  describe('costs', () => {
    test('one statement while nothing is in execution', async () => {
      assert.equal(await statementsOf(() => scene.reaper.runOnce()), 1);
    });

    test('one statement while no worker is stale and no run has been assigned for long', async () => {
      for (const worker of ['a', 'b', 'c']) {
        await scene.heartbeat(worker);
        await scene.assignMany(worker, 100);
      }
      assert.equal(await statementsOf(() => scene.reaper.runOnce()), 1);
    });

    test('one more statement for each thousand runs while runs have been assigned for long', async () => {
      await scene.assignMany('w', 100);
      await scene.letPass(TIMEOUT_MS + 1);
      await scene.heartbeat('w');
      assert.equal(await statementsOf(() => scene.reaper.runOnce()), 2);
    });

    test('statements for each batch of reclaimed runs, not for each run', async () => {
      const one = await costOf(scene, 1);
      assert.equal(await costOf(scene, RUNS_PER_BATCH), one);
      assert.ok((await costOf(scene, 2 * RUNS_PER_BATCH)) <= 2 * one);
    });

    test('one statement during the grace period, so that it detects an outage', async () => {
      await scene.assigned('w');
      scene.grace.restart();
      assert.equal(await statementsOf(() => scene.reaper.runOnce()), 1);
    });
  });

  test('finds a lost run behind whole pages of others', async () => {
    const lostFirst = await scene.assignMany('a-lost', 3);
    const well = await scene.assignMany('b-well', RUNS_PER_PAGE + 10);
    const lostBetween = await scene.assignMany('c-lost', RUNS_PER_PAGE + 1);
    await scene.assignMany('d-well', RUNS_PER_PAGE);
    const lostLast = await scene.assignMany('e-lost', 2);
    for (const worker of ['a-lost', 'c-lost', 'e-lost']) await scene.heartbeat(worker);
    await scene.letPass(TIMEOUT_MS + 1);
    for (const worker of ['b-well', 'd-well']) await scene.heartbeat(worker);
    const lost = [...lostFirst, ...lostBetween, ...lostLast];
    assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: lost.length });
    assert.deepEqual(await statesOf(lost), { PENDING: lost.length });
    assert.deepEqual(await statesOf(well), { ASSIGNED: well.length });
    await checkInvariants(database.dataSource);
  });

  test('finds a stale worker behind whole pages of others', async () => {
    const count = 2 * WORKERS_PER_PAGE + 5;
    const ids = await scene.assignMany('w', count);
    await execute(
      database.dataSource,
      `update runs r
          set worker_id = 'w' || lpad(v.n::text, 5, '0')
         from unnest($1::uuid[]) with ordinality as v (id, n)
        where r.id = v.id`,
      [ids],
    );
    await addExecutions(database.dataSource);
    const names = ids.map((_, i) => `w${String(i + 1).padStart(5, '0')}`);
    await Promise.all(names.map((name) => scene.heartbeat(name)));
    await scene.letPass(TIMEOUT_MS + 1);
    const isLost = (i: number): boolean => i === 0 || i === WORKERS_PER_PAGE || i === count - 1;
    await Promise.all(names.filter((_, i) => !isLost(i)).map((name) => scene.heartbeat(name)));
    assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 3 });
    const pending = await rows<{ id: string }>(
      database.dataSource,
      `select id from runs where state = 'PENDING' order by id`,
    );
    assert.deepEqual(pending.map(({ id }) => id).toSorted(), ids.filter((_, i) => isLost(i)).toSorted());
  });

  test('a run that cannot be reclaimed delays no other run and no later pass', async () => {
    const ids = await scene.assignMany('w', 5);
    await scene.heartbeat('w');
    await scene.letPass(TIMEOUT_MS + 1);
    const stuck = ids[2] ?? assert.fail();
    const holder = (await database.open()).createQueryRunner();
    await holder.startTransaction();
    await holder.query('select from runs where id = $1::uuid for update', [stuck]);
    assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 4, failed: 1 });
    await holder.rollbackTransaction();
    await holder.release();
    assert.deepEqual(await scene.reaper.runOnce(), { ...NONE, silent: 1 });
    await checkInvariants(database.dataSource);
  });

  test('stops between two batches on request, and the next pass continues', async () => {
    const ids = await scene.assignMany('w', 3 * RUNS_PER_BATCH);
    await scene.heartbeat('w');
    await scene.letPass(TIMEOUT_MS + 1);
    const stop = new AbortController();
    stop.abort();
    assert.deepEqual(await scene.reaper.runOnce(stop.signal), NONE);
    assert.deepEqual(await statesOf(ids), { ASSIGNED: ids.length });
    assert.equal((await scene.reaper.runOnce()).silent, ids.length);
  });

  test('logs nothing without reclaims, else one line and every run', async () => {
    scene = await ReaperScene.open(database.dataSource, { pool: 'shared' });
    const kept = await scene.assigned('well');
    const lost = await scene.assigned('lost');
    await scene.reaper.runOnce();
    assert.deepEqual(scene.logged, []);
    await scene.letPass(TIMEOUT_MS + 90_000);
    await scene.heartbeat('well', [kept.id]);
    await scene.reaper.runOnce();
    const told = scene.logged.map(({ level, msg, runId, silent, workers }) => [
      level,
      msg,
      runId ?? silent,
      workers,
    ]);
    assert.deepEqual(told, [
      ['debug', 'reclaimed a run', lost.id, undefined],
      ['info', 'reclaimed runs of stale workers', 1, ['lost']],
    ]);
    const metrics = await scene.registry.metrics();
    assert.match(metrics, /^longshore_reaper_reclaims_total\{reason="silent"\} 1$/m);
    assert.match(metrics, /^longshore_reaper_reclaims_total\{reason="unreported"\} 0$/m);
    assert.match(metrics, /^longshore_reaper_seconds_since_pass 0$/m);
    const [, overdue] = /^longshore_reaper_oldest_overdue_seconds (.*)$/m.exec(metrics) ?? [];
    assert.ok(Math.abs(Number(overdue) - 90) < 30, `overdue for 90 s: ${overdue}`);
  });
});

describe('losses of workers', () => {
  const database = useTestDatabase();

  beforeEach(() => forgetEverything(database.dataSource));

  for (const maxReclaims of [0, 3]) {
    test(`a run survives ${maxReclaims} of them, and the next one makes it FAILED; its retries are unchanged`, async () => {
      const scene = await ReaperScene.open(database.dataSource, { maxReclaims });
      const { id } = await scene.assigned('w', { maxAttempts: 2 });
      for (let loss = 1; loss <= maxReclaims; loss += 1) {
        await scene.letPass(TIMEOUT_MS + 1);
        assert.equal((await scene.reaper.runOnce()).silent, 1);
        const { state, attempt, reclaims, failures } = await scene.get(id);
        assert.deepEqual([state, attempt, reclaims, failures], ['PENDING', loss + 1, loss, 0]);
        await scene.heartbeat('w');
        // Ends the pause after a second loss.
        await scene.journal.change(id, { type: 'patch', keyName: 'test', state: 'PENDING' });
        assert.deepEqual(await scene.claim('w'), [id]);
      }
      await scene.letPass(TIMEOUT_MS + 1);
      assert.equal((await scene.reaper.runOnce()).silent, 1);
      const { state, attempt, reclaims, failures, errorMessage, finishedAt } = await scene.get(id);
      assert.deepEqual([state, attempt, reclaims, failures], ['FAILED', maxReclaims + 1, maxReclaims + 1, 0]);
      assert.equal(errorMessage, "Worker 'w' lost");
      assert.ok(finishedAt);
      const types = (await scene.timeline(id)).map(({ type }) => type);
      assert.deepEqual(
        types,
        Array.from({ length: maxReclaims + 1 }, () => 'RECLAIMED'),
      );
      assert.deepEqual(await scene.reaper.runOnce(), NONE);
      await checkInvariants(database.dataSource);
    });
  }

  test('make the run FAILED at its last attempt', async () => {
    const scene = await ReaperScene.open(database.dataSource, { maxReclaims: 1000 });
    const { id } = await scene.assigned('w');
    await execute(database.dataSource, 'update runs set attempt = $2::integer where id = $1::uuid', [
      id,
      MAX_ATTEMPTS_OF_A_RUN,
    ]);
    await addExecutions(database.dataSource);
    await scene.letPass(TIMEOUT_MS + 1);
    assert.equal((await scene.reaper.runOnce()).silent, 1);
    const { state, attempt } = await scene.get(id);
    assert.deepEqual([state, attempt], ['FAILED', MAX_ATTEMPTS_OF_A_RUN]);
  });
});
