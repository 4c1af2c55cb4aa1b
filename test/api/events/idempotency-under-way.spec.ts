import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const HOLD = 42;

describe('a creation with an Idempotency-Key that is under way', () => {
  const service = useTestApp();
  const twin = useTestApp(() => ({ database: service.database }));

  beforeAll(async () => {
    await service.dataSource.query(`
      create function interfere() returns trigger language plpgsql as $$
      begin
        if new.priority = 0 and exists (select 1 from runs where id = new.run_id and image = 'dies') then
          perform pg_terminate_backend(pg_backend_pid());
        elsif exists (select 1 from runs where id = new.run_id and image like 'held%') then
          perform pg_advisory_xact_lock_shared(${HOLD});
        end if;
        return new;
      end $$;
      create trigger interfere before insert on queue for each row execute function interfere();
    `);
  });

  const post = (key: string, body: object, at = service): Promise<TestAnswer> =>
    at.send('POST', '/runs', { body, headers: { 'Idempotency-Key': key } });

  const counts = async (): Promise<unknown> =>
    rows(
      service.dataSource,
      `select (select count(*) from runs) as runs,
              (select count(*) from idempotency_keys) as keys,
              (select count(*) from queue) as queued`,
    );

  test('leaves neither run nor key, and the same request makes the run later', async () => {
    const countsBefore = await counts();
    const cut = await post('cut', { image: 'dies' });
    assert.equal(cut.status, 503, cut.text);
    assert.ok(Number(cut.headers.get('retry-after')) >= 1);
    assert.deepEqual(await counts(), countsBefore);
    // With another priority nothing interferes: the key is still free for it.
    const created = await post('cut', { image: 'dies', priority: 1 }, twin);
    assert.equal(created.headers.get('idempotency-replayed'), null);
    bodyOf(created, 'OpRun', 201);
  });

  test('while the first request is under way in one process, the same in another waits for it', async () => {
    const holder = service.database.dataSource.createQueryRunner();
    await holder.query(`select pg_advisory_lock(${HOLD})`);
    const first = post('held', { image: 'held' });
    await waitingBackends(1);
    const second = post('held', { image: 'held' }, twin);
    const other = twin.send('POST', '/runs', { body: { image: 'free' } });
    await waitingBackends(2);
    await holder.query(`select pg_advisory_unlock(${HOLD})`);
    await holder.release();
    const answers = await Promise.all([first, second]);
    assert.deepEqual(
      answers.map(({ headers }) => headers.get('idempotency-replayed')),
      [null, 'true'],
    );
    assert.equal(bodyOf(answers[1], 'OpRun', 201).id, bodyOf(answers[0], 'OpRun', 201).id);
    bodyOf(await other, 'OpRun', 201);
  });

  test('when the process of the first request dies, the one that waited is the first', async () => {
    const holder = service.database.dataSource.createQueryRunner();
    await holder.query(`select pg_advisory_lock(${HOLD})`);
    const first = post('orphan', { image: 'held-orphan' });
    const [pid] = await waitingBackends(1);
    const second = post('orphan', { image: 'held-orphan' }, twin);
    await waitingBackends(2);
    await holder.query('select pg_terminate_backend($1)', [pid]);
    assert.equal((await first).status, 503);
    await holder.query(`select pg_advisory_unlock(${HOLD})`);
    await holder.release();
    const created = await second;
    assert.equal(created.headers.get('idempotency-replayed'), null);
    bodyOf(created, 'OpRun', 201);
    const [row] = await rows<{ n: number }>(
      service.dataSource,
      `select count(*)::integer as n from runs where image = 'held-orphan'`,
    );
    assert.equal(row?.n, 1);
  });

  /** Resolves with the ids of the backends that wait for a lock as soon as there are that many. */
  async function waitingBackends(number: number): Promise<number[]> {
    const deadline = Date.now() + 120_000;
    for (;;) {
      const waiting = await rows<{ pid: number }>(
        service.database.dataSource,
        `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      if (waiting.length >= number) return waiting.map(({ pid }) => pid);
      assert.ok(Date.now() < deadline, `${number} backends wait for a lock`);
    }
  }
});
