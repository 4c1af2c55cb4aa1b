import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { expireKey, issueKey, revokeKey } from '../../support/app/api-keys.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const FORM = /^ls_admin_[0-9A-Za-z]{38}$/;

describe('the admin key of a service that was given no keys', () => {
  let folder: string;
  let file: string;
  let database: TestDatabase;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-admin-key-'));
    file = join(folder, 'data', 'admin-key');
    database = await openTestDatabase();
  });
  afterAll(async () => {
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** One life of the service. */
  async function live(act: (service: TestApp) => Promise<void>): Promise<void> {
    const env = { SERVICE_API_KEYS: '', SERVICE_DATA_DIR: join(folder, 'data') };
    const service = await startTestApp({ env, database });
    try {
      await act(service);
    } finally {
      await service.close();
    }
  }

  const readKey = async (): Promise<string> => (await readFile(file, 'utf8')).trim();

  test('is made at the first start, kept in a file for its owner alone, and the log says where', async () => {
    await live(async ({ send, logged }) => {
      const key = await readKey();
      assert.match(key, FORM);
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.equal((await send('GET', '/workers', { key })).status, 200);
      assert.equal((await send('GET', '/metrics', { key })).status, 200);
      assertError(await send('GET', '/workers', { key: null }), 401, 'Missing API key');
      const lines = logged.map((line) => JSON.stringify(line));
      assert.equal(lines.filter((line) => line.includes(file)).length, 1);
      assert.ok(!lines.some((line) => line.includes(key)));
    });
  });

  test('is the same after a restart', async () => {
    const key = await readKey();
    await live(async ({ send, logged }) => {
      assert.equal(await readKey(), key);
      assert.equal((await send('GET', '/workers', { key })).status, 200);
      assert.ok(!JSON.stringify(logged).includes(key));
    });
  });

  test('with any one typing error is refused', async () => {
    await live(async ({ send }) => {
      const key = await readKey();
      const typos = [...key].map(
        (letter, i) => key.slice(0, i) + (letter === 'x' ? 'y' : 'x') + key.slice(i + 1),
      );
      typos.push(key.slice(0, -1), `${key}x`, key.toLowerCase(), `x${key}`);
      for (const typo of typos)
        assertError(await send('GET', '/workers', { key: typo }), 401, 'Invalid API key');
    });
  });

  test('keeps the service from starting while others may read its file', async () => {
    await chmod(file, 0o644);
    await assert.rejects(
      live(() => Promise.resolve()),
      (error: Error) => error.message.startsWith(`${file} is not trusted`),
    );
    await chmod(file, 0o600);
  });

  test('may be put into the file by hand', async () => {
    await writeFile(file, 'my-own-key-of-20-letters\r\n');
    await live(async ({ send }) => {
      assert.equal((await send('GET', '/workers', { key: 'my-own-key-of-20-letters' })).status, 200);
    });
  });

  test('keeps the service from starting when its file is empty', async () => {
    await writeFile(file, '\n');
    await assert.rejects(
      live(() => Promise.resolve()),
      (error: Error) => error.message.includes(file) && error.message.includes('holds no key'),
    );
  });

  test('is replaced when its file is deleted and no usable admin key is left, but not while one is', async () => {
    await writeFile(file, 'my-own-key-of-20-letters\n');
    await live(async (service) => {
      const asAdmin = { send: asKey(service, 'my-own-key-of-20-letters') };
      await issueKey(asAdmin, ['client']);
      await revokeKey(asAdmin, await issueKey(asAdmin, ['admin']));
      const expires_at = new Date(Date.now() + 3_600_000).toISOString();
      await expireKey(service, await issueKey(asAdmin, ['admin'], { expires_at }));
    });
    await rm(file);
    await live(async (service) => {
      const key = await readKey();
      assert.match(key, FORM);
      assertError(
        await service.send('GET', '/api-keys', { key: 'my-own-key-of-20-letters' }),
        401,
        'Invalid API key',
      );
      await issueKey({ send: asKey(service, key) }, ['admin']);
      const said = service.logged.filter(({ level }) => level === 'warning');
      assert.ok(said.some(({ msg }) => String(msg).includes(file)));
    });
    await rm(file);
    await live(() => assert.rejects(stat(file)));
  });
});

/** Sends with this key. */
function asKey({ send }: Pick<TestApp, 'send'>, key: string): TestApp['send'] {
  return (method, url, request) => send(method, url, { key, ...request });
}

describe('the keys of the settings', () => {
  test('give one key several scopes, and leave no key file behind while one is an admin key', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'longshore-admin-key-'));
    const keys =
      'client:both-scopes-of-one-key,worker:both-scopes-of-one-key,client:only:with:colons:in:it,admin:an-admin-key-of-the-settings';
    const env = { SERVICE_API_KEYS: keys, SERVICE_DATA_DIR: folder };
    const service = await startTestApp({ env });
    try {
      const { send } = service;
      const claim = (key: string): Promise<{ status: number }> => send('POST', '/workers/w/claim', { key });
      assert.equal((await send('GET', '/workers', { key: 'both-scopes-of-one-key' })).status, 200);
      assert.equal((await claim('both-scopes-of-one-key')).status, 200);
      assert.equal((await send('GET', '/workers', { key: 'only:with:colons:in:it' })).status, 200);
      assert.equal((await claim('only:with:colons:in:it')).status, 403);
      assert.equal((await claim('only')).status, 401);
      await assert.rejects(stat(join(folder, 'admin-key')));
    } finally {
      await service.close();
      await rm(folder, { recursive: true, force: true });
    }
  });
});
