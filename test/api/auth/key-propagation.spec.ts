import assert from 'node:assert/strict';
import { describe, onTestFinished, test, vi } from 'vitest';
import { MIGRATIONS } from '../../../migrations/all.js';
import { hashApiKey, makeApiKey } from '../../../src/auth/api-key.js';
import { KeyUsage } from '../../../src/auth/key-usage.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { migrate } from '../../../src/database/migrate.js';
import { assertError } from '../../support/http/answer-shapes.js';
import {
  assertBrokenOff,
  HeldClock,
  issueKey,
  knock,
  openStream,
  revokeKey,
} from '../../support/app/api-keys.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { startTestCluster } from '../../support/test-cluster.js';
import type { TestDatabase } from '../../support/test-database.js';
import { useTestApp, useTestDatabase } from '../../support/app/use-test-app.js';

/** Within this time a revocation, a new key and an end must be known everywhere. */
const EVERYWHERE_MS = 5_000;

describe('API keys of two processes on one database', () => {
  const database = useTestDatabase();
  const one = useTestApp({ database });
  const other = useTestApp({ database });

  test('work in the other process at once', async () => {
    for (let n = 0; n < 20; n += 1) {
      const made = await issueKey(one, ['client']);
      assert.equal((await knock(other, made.key)).status, 200);
    }
  });

  test('that the other process has refused before work there within 5 s', async () => {
    const clock = new HeldClock(other);
    onTestFinished(clock.release);
    const key = makeApiKey('client');
    assertError(await knock(other, key), 401, 'Invalid API key');
    await one.dataSource.query(
      `insert into api_keys (id, name, scopes, prefix, hash, created_at)
       values (gen_random_uuid(), 'restored', '{client}', 'ls_client_', $1, now())`,
      [hashApiKey(key)],
    );
    clock.advance(EVERYWHERE_MS);
    assert.equal((await knock(other, key)).status, 200);
  });

  test('that are in constant use when they are revoked are refused within 5 s of their clock', async () => {
    const clock = new HeldClock(other);
    onTestFinished(clock.release);
    const made = await issueKey(one, ['client']);
    assert.equal((await knock(other, made.key)).status, 200);
    await revokeKey(one, made);
    let status = 200;
    for (let ms = 0; ms <= EVERYWHERE_MS && status === 200; ms += 20) {
      ({ status } = await knock(other, made.key));
      clock.advance(20);
    }
    assert.equal(status, 401);
  });

  test('end the streams of the other process when they are revoked', async () => {
    const made = await issueKey(one, ['client']);
    const stream = await openStream(other, made.key);
    assert.equal(stream.status, 200);
    await revokeKey(one, made);
    await assertBrokenOff(stream);
  });

  test('note their last use from both processes without getting in each other’s way', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => issueKey(one, ['client'])));
    await Promise.all([one, other].flatMap((app) => made.map(({ key }) => knock(app, key))));
    await Promise.all([one, other].map((app) => app.app.get(KeyUsage).flush()));
    const list: { id: string; last_used_at: string | null }[] = (await one.send('GET', '/api-keys')).body;
    for (const { id } of made) assert.ok(list.find((key) => key.id === id)?.last_used_at);
    for (const { logged } of [one, other]) {
      assert.ok(!logged.some(({ msg }) => msg === 'could not write when API keys were last used'));
    }
  });

  test('of the settings belong to their own process', async () => {
    const third = await startTestApp({ database, env: { SERVICE_API_KEYS: 'admin:third-key-of-the-tests' } });
    try {
      assert.equal((await knock(third, 'third-key-of-the-tests')).status, 200);
      assertError(await knock(third, KEYS.admin), 401, 'Invalid API key');
      assertError(await knock(one, 'third-key-of-the-tests'), 401, 'Invalid API key');
      assert.equal((await knock(one, KEYS.admin)).status, 200);
    } finally {
      await third.close();
    }
  });
});

describe('API keys while the database is away', () => {
  test('of the settings and known ones go on, unknown ones are 503 and never 401', async () => {
    const cluster = await startTestCluster();
    const open = () =>
      connectDatabase(
        {
          url: cluster.url,
          poolSize: 5,
          applicationName: 'longshore test',
          entities: ENTITIES,
          migrations: MIGRATIONS,
        },
        { timeoutMs: 120_000 },
      );
    const dataSource = await open();
    await migrate(dataSource);
    const database: TestDatabase = { url: cluster.url, dataSource, open, close: () => Promise.resolve() };
    const service = await startTestApp({ database });
    let stopped = false;
    try {
      const clock = new HeldClock(service);
      onTestFinished(clock.release);
      const [known, unknown] = [await issueKey(service, ['client']), await issueKey(service, ['client'])];
      assert.equal((await knock(service, known.key)).status, 200);
      await dataSource.destroy();
      await cluster.stop();
      stopped = true;
      clock.advance(2_000);
      assert.equal((await knock(service, KEYS.worker)).status, 200);
      assert.equal((await knock(service, known.key)).status, 200);
      const away = await knock(service, unknown.key);
      assertError(away, 503, 'The database is not available');
      assert.equal(away.headers.get('retry-after'), '1');
      assertError(await knock(service, makeApiKey('client')), 503, 'The database is not available');
      assertError(await knock(service, 'no key of ours'), 401, 'Invalid API key');
      clock.advance(EVERYWHERE_MS);
      assertError(await knock(service, known.key), 503, 'The database is not available');
    } finally {
      vi.restoreAllMocks();
      await service.close();
      if (!stopped) {
        await dataSource.destroy();
        await cluster.stop();
      }
    }
  });
});
