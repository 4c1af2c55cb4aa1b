import 'reflect-metadata';
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { createLog, type Log } from '../common/logging/logger.js';
import { isApiKey } from './api-key.js';
import { startupKeys, type StartupKey } from './startup-keys.js';
import { FakeKeys } from './testing/fake-keys.js';

describe('the keys that the service starts with', () => {
  let dataDir: string;
  let keys: FakeKeys;
  let lines: string[];
  let log: Log;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'longshore-keys-'));
    keys = new FakeKeys();
    lines = [];
    log = createLog(
      { logLevel: 'info' },
      { destination: { write: (line: string) => void lines.push(line) }, pretty: false },
    );
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));

  const start = (
    apiKeys: { scope: 'admin' | 'client'; key: string }[] = [],
  ): Promise<readonly StartupKey[]> => startupKeys({ apiKeys, dataDir }, keys, log);
  const fileText = (): Promise<string | null> =>
    readFile(join(dataDir, 'admin-key'), 'utf8').catch(() => null);

  test('are those of the settings, and none is made', async () => {
    assert.deepEqual(await start([{ scope: 'client', key: 'c' }]), [
      { scope: 'client', key: 'c', origin: 'settings' },
    ]);
    assert.equal(await fileText(), null);
  });

  test('are one admin key that is made when nobody could call otherwise, in a file of its owner alone', async () => {
    const [made, ...others] = await start();
    assert.ok(made && isApiKey(made.key));
    assert.deepEqual([made.scope, made.origin, others], ['admin', 'generated', []]);
    assert.equal(await fileText(), `${made.key}\n`);
    assert.equal((await stat(join(dataDir, 'admin-key'))).mode & 0o777, 0o600);
    assert.ok(lines.some((line) => line.includes(join(dataDir, 'admin-key'))));
    assert.ok(!lines.join('').includes(made.key));
  });

  test('are none when the database has a usable key', async () => {
    keys.add('h');
    assert.deepEqual(await start(), []);
    assert.equal(await fileText(), null);
  });

  test('keep the admin key that was once made, whatever the database has since', async () => {
    const first = await start();
    keys.add('h');
    assert.deepEqual(await start(), first);
  });

  test('leave the made key out as long as the settings have keys', async () => {
    const [made] = await start();
    const others = await start([{ scope: 'admin', key: 'a' }]);
    assert.ok(others.every(({ key }) => key !== made?.key));
    assert.deepEqual(await start(), [made]);
  });
});
