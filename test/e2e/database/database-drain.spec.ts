import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { AnswerRecord } from '../../support/http/answer-record.js';
import { MovableDatabase } from '../../support/postgres/movable-database.js';
import { assertNothingLost, RunLoad } from '../../support/runs/run-load.js';
import { startService, until } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

const ENV = { SERVICE_API_KEYS: 'admin:drain-admin-key-of-the-tests' };

describe('a service under load that is told to stop', () => {
  it('answers what is under way and what waits, loses nothing and exits 0', async () => {
    const postgres = await MovableDatabase.create();
    try {
      const url = await postgres.bring();
      const service = await startService({ env: { ...ENV, DATABASE_URL: url } });
      const send = senderTo(service.url, service.adminKey);
      const record = new AnswerRecord();
      const load = new RunLoad(service.url, service.adminKey, 8, (each) => record.watch(each));
      try {
        await until(() => load.acknowledged > 100, 'the load has begun');
        const waiting = [
          send('GET', '/feed?topic=quiet&wait=30'),
          send('GET', '/feed?topic=silent&wait=30'),
          send('GET', '/feed?topic=still&wait=30'),
        ];
        await sleep(300);
        service.signal('SIGTERM');
        for (const { status, text } of await Promise.all(waiting)) assert.equal(status, 200, text);
        assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
      } finally {
        await load.stop();
      }
      assert.deepEqual(
        record.statuses().filter((status) => status >= 300),
        [],
        'nobody was refused',
      );
      await assertNothingLost(load, url);
    } finally {
      await postgres.remove();
    }
  });

  it('answers claims that wait with nothing, and exits 0', async () => {
    const service = await startService({ env: ENV });
    const send = senderTo(service.url, service.adminKey);
    const workers = Array.from({ length: 20 }, (_, n) => `worker-${n}`);
    for (const worker of workers) await send('POST', `/workers/${worker}/heartbeat`, { body: {} });
    const waiting = workers.map((worker) => send('POST', `/workers/${worker}/claim?wait=30`));
    await sleep(300);
    service.signal('SIGTERM');
    for (const { status, body, text } of await Promise.all(waiting)) {
      assert.equal(status, 200, text);
      assert.deepEqual(body.ops, []);
    }
    assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
  });

  it('does not wait for a database that is away', async () => {
    const postgres = await MovableDatabase.create();
    try {
      const url = await postgres.bring();
      const service = await startService({ env: { ...ENV, DATABASE_URL: url } });
      const send = senderTo(service.url, service.adminKey);
      await postgres.freeze();
      const cut = send('POST', '/runs', { body: { image: 'i' } });
      await sleep(200);
      service.signal('SIGTERM');
      assert.equal((await cut).status, 503);
      assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
    } finally {
      await postgres.remove();
    }
  });
});
