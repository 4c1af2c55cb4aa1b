import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { CliError, EXIT } from '../cli-error.js';
import { chooseConnection, configPath, deleteLogin, readLogin, saveLogin } from './connection.js';

const KEPT = { url: 'http://kept:1', apiKey: 'kept-key' };
const ENV = { SERVICE_URL: 'http://env:2', SERVICE_API_KEY: 'env-key' };
const isUsage = (error: unknown): boolean =>
  error instanceof CliError && error.exitCode === EXIT.usage && !error.message.includes('secret');

describe('the connection', () => {
  test('is of the flags, then of the environment, then of the login', () => {
    const flags = { url: 'http://flag:3/', key: 'flag-key' };
    assert.deepEqual(chooseConnection(flags, ENV, KEPT), { url: 'http://flag:3', apiKey: 'flag-key' });
    assert.deepEqual(chooseConnection({}, ENV, KEPT), { url: 'http://env:2', apiKey: 'env-key' });
    assert.deepEqual(chooseConnection({}, {}, KEPT), KEPT);
    assert.deepEqual(chooseConnection({ key: 'k' }, { SERVICE_URL: '' }, undefined), {
      url: 'http://127.0.0.1:5555',
      apiKey: 'k',
    });
  });

  test('never takes a kept key to another service', () => {
    assert.throws(() => chooseConnection({ url: 'http://other' }, {}, KEPT), isUsage);
    assert.throws(() => chooseConnection({}, { SERVICE_URL: 'http://other' }, KEPT), isUsage);
    assert.deepEqual(chooseConnection({ url: 'http://kept:1/' }, {}, KEPT), KEPT);
  });

  test('has its key from the file of SERVICE_API_KEY_FILE, unless the variable is set as well', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cli-key-'));
    const SERVICE_API_KEY_FILE = join(folder, 'key');
    await writeFile(SERVICE_API_KEY_FILE, 'key-of-file\n');
    assert.equal(chooseConnection({}, { SERVICE_API_KEY_FILE }, KEPT).apiKey, 'key-of-file');
    assert.throws(() => chooseConnection({}, { ...ENV, SERVICE_API_KEY_FILE }, KEPT), isUsage);
    assert.throws(() => chooseConnection({}, { SERVICE_API_KEY_FILE: folder }, KEPT), isUsage);
    await rm(folder, { recursive: true });
  });

  test('needs a key and a plain URL', () => {
    assert.throws(() => chooseConnection({}, {}, undefined), isUsage);
    assert.throws(() => chooseConnection({ key: 'two words' }, {}, undefined), isUsage);
    for (const url of ['nowhere', 'ftp://host', 'http://user:word@host', 'http://host/?a=b']) {
      assert.throws(() => chooseConnection({ url, key: 'k' }, {}, undefined), isUsage, url);
    }
  });
});

const LOGIN = { url: 'http://127.0.0.1:5555', apiKey: 'secret' };

describe('the file of a login', () => {
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    env = { XDG_CONFIG_HOME: await mkdtemp(join(tmpdir(), 'cli-config-')) };
  });
  afterAll(() => rm(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true }));

  test('is below XDG_CONFIG_HOME, and below ~/.config when that is unset or relative', () => {
    assert.equal(configPath({ XDG_CONFIG_HOME: '/x', HOME: '/h' }), '/x/longshore/config.json');
    assert.equal(configPath({ HOME: '/h' }), '/h/.config/longshore/config.json');
    assert.equal(configPath({ XDG_CONFIG_HOME: 'x', HOME: '/h' }), '/h/.config/longshore/config.json');
  });

  test('is for its owner alone, and holds what was kept last', async () => {
    assert.equal(await readLogin(env), undefined);
    await saveLogin(env, { ...LOGIN, apiKey: 'before' });
    const path = await saveLogin(env, LOGIN);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.deepEqual(await readLogin(env), LOGIN);
    assert.deepEqual(await readdir(dirname(path)), ['config.json']);
  });

  test('is not used when others can read it or it is damaged', async () => {
    await chmod(configPath(env), 0o640);
    await assert.rejects(readLogin(env), isUsage);
    await chmod(configPath(env), 0o600);
    for (const text of ['', '{"url": 1, "api_key": "secret"}', '[]', 'null']) {
      await writeFile(configPath(env), text);
      await assert.rejects(readLogin(env), isUsage, text);
    }
  });

  test('is gone when it was forgotten', async () => {
    assert.equal(await deleteLogin(env), true);
    assert.equal(await deleteLogin(env), false);
    assert.equal(await readLogin(env), undefined);
  });
});
