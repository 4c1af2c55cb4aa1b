import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { setTimeout as delay } from 'node:timers/promises';
import { BodyQuota } from '../../../src/common/http/request/body-quota.js';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { KEYS, startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';

const BODY = JSON.stringify({ image: 'image', inputs: { text: 'x'.repeat(24_000) } });

describe('request bodies in progress', () => {
  let service: TestApp;
  const opened: RawConnection[] = [];

  beforeEach(async () => {
    // Room for two unfinished bodies of each key, and for three of all keys.
    service = await startTestApp({
      env: {
        SERVICE_MAX_BODY_BYTES: '32000',
        SERVICE_BODY_BYTES_PER_KEY: '65536',
        SERVICE_BODY_BYTES: '90000',
      },
    });
  });
  afterEach(async () => {
    for (const connection of opened.splice(0)) connection.destroy();
    await service.close();
  });

  async function connect(): Promise<RawConnection> {
    const connection = await RawConnection.open(Number(new URL(service.url).port));
    opened.push(connection);
    return connection;
  }

  async function untilHeld(holds: (bytes: number) => boolean): Promise<void> {
    const quota = service.app.get(BodyQuota);
    for (let tries = 0; tries < 500 && !holds(quota.held); tries += 1) await delay(10);
    assert.ok(holds(quota.held), `${quota.held} bytes are held`);
  }

  /** A request that lacks the last byte of its body. */
  async function sendUnfinished(key: string): Promise<RawConnection> {
    const before = service.app.get(BodyQuota).held;
    const connection = await connect();
    const text = requestText('POST', '/runs', { 'X-API-Key': key, 'Content-Type': 'application/json' }, BODY);
    connection.send(text.slice(0, -1));
    await untilHeld((bytes) => bytes >= before + BODY.length - 1);
    return connection;
  }

  function create(key: string): Promise<RawConnection> {
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
    return connect().then((connection) => connection.send(requestText('POST', '/runs', headers, BODY)));
  }

  test('are bounded for each key with 429, and for all with 503, and the connection is closed', async () => {
    const first = await sendUnfinished(KEYS.client);
    await sendUnfinished(KEYS.client);
    const over = await create(KEYS.client);
    const refused = await over.next();
    assert.equal(refused.status, 429);
    assert.deepEqual(JSON.parse(refused.body), {
      detail:
        'Too many bytes of request bodies in progress of this API key: at most 65536 (SERVICE_BODY_BYTES_PER_KEY)',
    });
    assert.deepEqual([refused.headers['retry-after'], refused.headers['connection']], ['5', 'close']);
    await over.closed();
    assert.equal((await (await create(KEYS.admin)).next()).status, 201, 'another key has its own share');
    const other = await sendUnfinished(KEYS.admin);
    const full = await (await create(KEYS.admin)).next();
    assert.equal(full.status, 503);
    assert.match(full.body, /at most 90000 \(SERVICE_BODY_BYTES\)/);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_refused_total\{limit="SERVICE_BODY_BYTES"\} 1$/m);
    assert.match(text, /^longshore_refused_total\{limit="SERVICE_BODY_BYTES_PER_KEY"\} 1$/m);
    // The unfinished ones are not disturbed.
    assert.equal((await first.send('}').next()).status, 201);
    assert.equal((await other.send('}').next()).status, 201);
  });

  test('are released with their connections', async () => {
    for (const connection of [await sendUnfinished(KEYS.client), await sendUnfinished(KEYS.client)]) {
      connection.destroy();
    }
    await untilHeld((bytes) => bytes === 0);
    assert.equal((await (await create(KEYS.client)).next()).status, 201);
    await untilHeld((bytes) => bytes === 0);
  });

  test('count what small pieces cost, not only their bytes', async () => {
    const head = requestText('POST', '/runs', {
      'X-API-Key': KEYS.client,
      'Content-Type': 'application/json',
      'Transfer-Encoding': 'chunked',
    });
    const refused = await (await connect()).send(head + '1\r\n \r\n'.repeat(2_000)).next();
    assert.equal(refused.status, 429);
  });

  test('are given back when a heartbeat is recorded, however long it is held', async () => {
    const inputs = { text: 'x'.repeat(24_000) };
    const run = { id: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b', image: 'i', inputs, constraints: {} };
    const beat = (worker: number, query = ''): Promise<TestAnswer> =>
      service.send('POST', `/workers/heartbeat${query}`, {
        key: KEYS.worker,
        body: {
          worker_id: `w${worker}`,
          resources: { cpu_cores: 1, ram_mb: 1, gpus: [] },
          tags: [],
          running_ops: [run],
        },
      });
    const workers = [0, 1, 2, 3, 4, 5];
    const held: Promise<TestAnswer>[] = [];
    for (const worker of workers) {
      held.push(beat(worker, '?wait=30'));
      const requests = service.app.get(HeldRequests);
      for (let tries = 0; tries < 500 && requests.size < held.length; tries += 1) await delay(10);
      assert.equal(requests.size, held.length);
    }
    await untilHeld((bytes) => bytes === 0);
    for (const worker of workers) assert.equal((await beat(worker)).status, 200);
    assert.deepEqual(
      (await Promise.all(held)).map(({ status }) => status),
      workers.map(() => 200),
    );
  });

  test('cost nothing when they are small, whatever the others hold', async () => {
    await sendUnfinished(KEYS.client);
    await sendUnfinished(KEYS.client);
    const created = await service.send('POST', '/runs', { key: KEYS.client, body: { image: 'small' } });
    assert.equal(created.status, 201);
  });
});
