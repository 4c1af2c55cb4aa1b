import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { PausesJob } from '../../../src/runs/pauses/pauses.job.js';
import { Pauses } from '../../../src/runs/queue/pauses.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';

for (const scheduler of ['direct', 'fit']) {
  describe(`pauses in two processes, with the strategy ${scheduler}`, () => {
    const database = useTestDatabase({ entities: ENTITIES });
    const services: TestApp[] = [];
    const steps = (n: number): RunSteps => new RunSteps(service(n).send);
    const service = (n: number): TestApp => services[n % 2] ?? assert.fail('two processes');

    beforeAll(async () => {
      for (let n = 0; n < 2; n += 1) {
        services.push(await startTestApp({ database, env: { SERVICE_SCHEDULER: scheduler } }));
      }
    });
    afterAll(() => Promise.all(services.map((one) => one.close())));

    const pause = async (n: number, name: string, where: unknown): Promise<void> => {
      const answer = await service(n).send('PUT', `/pauses/${name}`, { body: { where, reason: 'r' } });
      assert.ok(answer.status < 300, answer.text);
    };
    const resume = async (n: number, name: string): Promise<void> =>
      assert.equal((await service(n).send('DELETE', `/pauses/${name}`)).status, 204);

    test('lose no run and assign each once, whatever is paused and resumed beside creates and claims', async () => {
      const claimed: string[] = [];
      const created: string[] = [];
      const workers = Array.from({ length: 6 }, (_, n) => `w${n}`);
      for (const [n, worker] of workers.entries()) {
        await steps(n).heartbeat(worker, { resources: { cpu_cores: 999, ram_mb: 999_999, gpus: [] } });
      }
      const over = new AbortController();
      const claiming = workers.map(async (worker, n) => {
        while (!over.signal.aborted || claimed.length < created.length) {
          const { ops } = bodyOf(
            await service(n).send('POST', `/workers/${worker}/claim?wait=1`),
            'ClaimedOps',
          );
          claimed.push(...ops.map(({ id }: { id: string }) => id));
          for (const { id } of ops) await steps(n + 1).event(id, 'COMPLETED');
        }
      });
      const creating = Array.from({ length: 4 }, async (_, n) => {
        for (let i = 0; i < 40; i += 1) {
          const { id } = await steps(n).create({
            ...(i % 2 === 0 && { labels: { part: String(i % 4) } }),
            ...(i % 3 === 0 && { concurrency: { key: `k${i % 2}`, limit: 2 } }),
            priority: i % 5,
          });
          created.push(id);
        }
      });
      const pausing = [0, 1].map(async (n) => {
        for (let i = 0; i < 8; i += 1) {
          await pause(n, `p${n}`, [{ label: ['part'] }, { label: ['part=2'] }, { all: true }][i % 3]);
          if (i % 2 === 0) await resume(n + 1, `p${n}`);
        }
        await resume(n, `p${n}`);
      });
      await Promise.all([...creating, ...pausing]);
      over.abort();
      await Promise.all(claiming);
      assert.deepEqual(claimed.toSorted(), created.toSorted());
    });

    test('hold runs in the other process as soon as it has heard of them', async () => {
      await steps(1).heartbeat('w');
      const { id } = await steps(0).create({ labels: { heard: 'yes' } });
      await pause(0, 'p', { label: ['heard'] });
      await until(
        async () => (await service(1).send('GET', '/metrics')).text,
        (text) => text.includes('longshore_pauses_active 1'),
      );
      const { id: later } = await steps(1).create({ labels: { heard: 'too' } });
      assert.deepEqual(await steps(1).claim(), []);
      await resume(1, 'p');
      const got: string[] = [];
      await until(
        async () => got.push(...(await steps(1).claim()).map((op) => op.id)),
        (count) => count === 2,
      );
      assert.deepEqual(new Set(got), new Set([id, later]));
    });

    test('are applied by another process after the one that changed them has died', async () => {
      const { id } = await steps(0).create({ labels: { died: 'x' } });
      // What a process leaves behind that dies right after its commits.
      await database.dataSource.query(
        `insert into pauses (name, reason, labels, updated_by, updated_by_name, created_at, updated_at)
         values ('left', 'r', '{died}', gen_random_uuid(), 'k', now(), now())`,
      );
      await service(1).app.get(PausesJob).runOnce();
      const marked = () =>
        database.dataSource.query<{ run_id: string }[]>('select run_id from queue where is_paused');
      assert.deepEqual(await marked(), [{ run_id: id }]);
      await database.dataSource.query(`update pauses set until_at = now()`);
      await service(1).app.get(PausesJob).runOnce();
      assert.deepEqual(await marked(), []);
      await steps(0).emptyQueue();
    });
  });
}

describe('runs behind paused ones', () => {
  const database = useTestDatabase({ entities: ENTITIES });

  test('are claimed before all paused ones are marked', async () => {
    const service = await startTestApp({ database });
    const steps = new RunSteps(service.send);
    await steps.heartbeat('w');
    const { id: first } = await steps.create({ labels: { held: 'x' }, priority: 9 });
    const { id: last } = await steps.create();
    // Rows as if they had been there before the pause, which no job marks.
    await database.dataSource.query(
      `with copies as (
         insert into runs select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).*
           from runs r, generate_series(1, 2000) where r.id = $1 returning id, created_at, priority, ram_mb, vram_mb
       )
       insert into queue (run_id, created_at, priority, ram_mb, vram_mb, cpu_millis)
       select id, created_at, priority, ram_mb, vram_mb, 0 from copies`,
      [first],
    );
    await database.dataSource.query(
      `insert into pauses (name, reason, labels, is_applied, updated_by, updated_by_name, created_at, updated_at)
       values ('p', 'r', '{held}', true, gen_random_uuid(), 'k', now(), now())`,
    );
    await database.dataSource.query(`select pg_notify('longshore_commit', '{"pauses":true}')`);
    await until(
      async () => (await service.send('GET', '/metrics')).text,
      (text) => text.includes('longshore_pauses_active 1'),
    );
    const ops = bodyOf(await service.send('POST', '/workers/w/claim?wait=30'), 'ClaimedOps').ops;
    assert.deepEqual(
      ops.map(({ id }: { id: string }) => id),
      [last],
    );
    const [{ marked }] = await database.dataSource.query<[{ marked: number }]>(
      'select count(*)::integer as marked from queue where is_paused',
    );
    assert.ok(marked < 1000, String(marked));
    // Those that claims have passed without marking them are free with the end of the pause.
    assert.equal((await service.send('DELETE', '/pauses/p')).status, 204);
    const next = bodyOf(await service.send('POST', '/workers/w/claim?wait=30'), 'ClaimedOps').ops;
    assert.deepEqual(next.length, 1);
    await service.close();
  });
});

describe('without pauses', () => {
  const statements = logStatements();
  const database = useTestDatabase({ entities: ENTITIES });

  test('no statement of a lifecycle asks for them', async () => {
    const service = await startTestApp({ database });
    const steps = new RunSteps(service.send);
    // When a process begins to hear of pauses, it reads them once more.
    const pauses = service.app.get(Pauses, { strict: false });
    await until(
      async () => pauses.mayExist,
      (mayExist) => !mayExist,
    );
    await until(
      async () => (await service.send('GET', '/metrics')).text,
      (text) => /^longshore_job_duration_seconds_count\{name="pauses"\} [1-9]/m.test(text),
    );
    // Those that were asked for before have been read then.
    await pauses.refresh();
    statements.length = 0;
    const { id } = await steps.running({ labels: { a: '1' }, concurrency: { key: 'k', limit: 1 } });
    await steps.event(id, 'COMPLETED');
    assert.ok(statements.some((sql) => sql.includes('queue')));
    assert.deepEqual(
      statements.filter((sql) => /\bpauses\b/.test(sql)),
      [],
    );
    await service.close();
  });
});
