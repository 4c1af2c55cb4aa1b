import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test, vi } from 'vitest';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { ClaimProcess } from '../../support/workers/claim-process.js';
import { changeOn, createOn, eventCommand } from '../../support/runs/journal.js';
import { until } from '../../support/service-process.js';
import { endListening } from '../../support/postgres/listening-sessions.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Lets the steady clock of this process go on by itself, without anybody waiting. */
function letPass(ms: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
}

describe('a waiting claim on an empty queue', () => {
  const database = useTestDatabase();
  let here: ClaimProcess;
  let there: ClaimProcess;

  beforeEach(async () => {
    await database.dataSource.query('delete from queue');
    await database.dataSource.query('delete from idempotency_keys');
    await database.dataSource.query(
      "update runs set state = 'CANCELLED', outcome = 'CANCELLED', finished_at = now(), ended_worker = worker_id where finished_at is null",
    );
    await database.dataSource.query('delete from executions');
    here = await ClaimProcess.start(database);
    there = await ClaimProcess.start(database);
    await here.know('w', 'other');
    await there.know('w', 'other');
  });
  afterEach(async () => {
    await here.close();
    await there.close();
  });

  /** Ends a run. */
  const complete = async (runId: string, at = here): Promise<void> => {
    await changeOn(at.journal, runId, eventCommand({ type: 'COMPLETED', msg: '', payload: {} }));
  };

  test('does not reach the journal, and costs claims that arrive and end together two statements if they have keys, else none', async () => {
    await here.settle();
    const claimAll = (key?: string): Promise<string[][]> =>
      Promise.all(
        Array.from({ length: 100 }, (_, n) =>
          here.claim('w', { wait: 1, ...(key === undefined ? {} : { key: `${key} ${n}` }) }),
        ),
      );
    assert.deepEqual((await claimAll()).flat(), []);
    assert.equal(here.keys.reads, 0);
    assert.deepEqual((await claimAll('k')).flat(), []);
    // Ends may fall into two turns of the event loop, or more on a busy machine.
    assert.ok(here.keys.reads <= 20, `${here.keys.reads} statements`);
    assert.equal(here.submitted, 0);
  });

  test('gets the run that another process creates at any moment', async () => {
    for (let n = 0; n < 60; n += 1) {
      await here.settle();
      const creating = n % 2 ? createOn(there.journal) : null;
      for (let turns = n % 7; turns > 0; turns -= 1) await new Promise((resolve) => setImmediate(resolve));
      const claim = here.claim('w', n % 3 ? { key: `k${n}` } : {});
      const run = await (creating ?? createOn(there.journal));
      assert.deepEqual(await claim, [run.id]);
      await complete(run.id);
    }
  });

  test('gets the run that is created while its key is looked up', async () => {
    await here.settle();
    const known = here.waiting.version;
    const findClaimed = here.keys.findClaimed.bind(here.keys);
    let created = '';
    vi.spyOn(here.keys, 'findClaimed').mockImplementation(async (...question) => {
      const answer = await findClaimed(...question);
      created ||= (await createOn(there.journal)).id;
      await until(() => here.waiting.version > known, 'the creation is heard');
      return answer;
    });
    const got = await here.claim('w', { key: 'k' });
    assert.deepEqual(got, [created]);
  });

  test('asks the journal while notices are lost, and finds a run that was created meanwhile', async () => {
    await here.close();
    here = await ClaimProcess.start(database, { reconnectMs: 60_000 });
    await here.know('w', 'other');
    await here.settle();
    await endListening(database.dataSource);
    await until(() => !here.notices.isListening, 'the loss is noticed');
    const { id } = await createOn(there.journal);
    assert.deepEqual(await here.claim('w'), [id]);
  });

  test('that began before the listening connection was lost is woken after the reconnection', async () => {
    await here.settle();
    const claim = here.claim('w');
    await until(() => here.waiting.size === 1, 'it waits');
    assert.equal(here.submitted, 0);
    await endListening(database.dataSource);
    const { id } = await createOn(there.journal);
    assert.deepEqual(await claim, [id]);
  });

  test('asks the journal again ten seconds after the queue was last seen empty, so a lost notification costs seconds', async () => {
    const { id } = await createOn(there.journal);
    await until(() => here.claim('w', { wait: 0 }).then((got) => got.length === 1), 'it is handed out');
    await complete(id);
    await here.settle();
    await database.dataSource.query(
      `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select id, 0, now(), 0, 0, 0 from runs where id = $1`,
      [id],
    );
    await database.dataSource.query(
      `update runs set state = 'PENDING', outcome = 'OPEN', worker_id = null, assigned_at = null, started_at = null, finished_at = null, ended_worker = null where id = $1`,
      [id],
    );
    letPass(10_001);
    const claims = ['w', 'other'].map((worker) => here.claim(worker, { wait: 1, key: 'k' }));
    assert.deepEqual((await Promise.all(claims)).flat(), [id]);
  });

  test('asks the journal once after another process has emptied the queue', async () => {
    await here.settle();
    const { id } = await createOn(there.journal);
    await until(() => !here.waiting.isQueueEmpty, 'the creation is heard');
    assert.deepEqual(await there.claim('other', { wait: 0 }), [id]);
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.equal(here.submitted, 1);
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.equal(here.submitted, 1);
  });

  test('costs nothing although this process knows a lane whose run another process has taken', async () => {
    await there.knowTagged('tagged', 'gpu');
    const { id } = await createOn(there.journal, {
      selector: ['gpu'],
      requirementId: requirementIdOf({ tags: ['gpu'], capabilities: [], gpuTags: [], gpus: null }),
    });
    await until(
      () => here.lanes.servedBy({ id: 'x', has: new Set(['tag:gpu']), gpus: [] }).length > 0,
      'it is heard',
    );
    assert.deepEqual(await there.claim('tagged', { wait: 0 }), [id]);
    await here.settle();
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.equal(here.submitted, 0);
  });

  test('with a key that another process or this one before a restart has served gets those runs at once', async () => {
    const { id } = await createOn(there.journal);
    assert.deepEqual(await there.claim('w', { key: 'k' }), [id]);
    await here.settle();
    assert.deepEqual(await here.claim('w', { key: 'k' }), [id]);
    await here.close();
    here = await ClaimProcess.start(database);
    await here.know('w', 'other');
    assert.deepEqual(await here.claim('w', { key: 'k' }), [id]);
  });

  test('with a key that another process serves meanwhile ends with those runs, never empty', async () => {
    await here.settle();
    const claim = here.claim('w', { key: 'k', wait: 2 });
    await until(() => here.waiting.size === 1, 'it waits');
    // Whoever is woken here finds nothing: the run goes with its creation.
    const elsewhere = there.claim('w', { key: 'k' });
    await until(() => there.waiting.size === 1, 'it waits there');
    const { id } = await createOn(there.journal);
    assert.deepEqual(await elsewhere, [id]);
    assert.deepEqual(await claim, [id]);
  });

  test('with a key that this process has served gets those runs at once, and nothing once they have ended', async () => {
    await here.settle();
    const { id } = await createOn(here.journal);
    assert.deepEqual(await here.claim('w', { key: 'k' }), [id]);
    await here.settle();
    assert.deepEqual(await here.claim('w', { key: 'k' }), [id]);
    await complete(id);
    await here.settle();
    assert.deepEqual(await here.claim('w', { key: 'k', wait: 1 }), []);
  });

  test('asks the journal while a run is queued that fits no claiming worker', async () => {
    await here.close();
    here = await ClaimProcess.start(database, { strategy: new FitStrategy(300) });
    await here.know('w', 'other');
    await here.settle();
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.equal(here.submitted, 0);
    await createOn(there.journal, { cpu: 10_000 });
    await until(() => !here.waiting.isQueueEmpty, 'the creation is heard');
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.deepEqual(await here.claim('w', { wait: 1 }), []);
    assert.ok(here.submitted >= 2);
  });
});
