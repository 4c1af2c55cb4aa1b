import 'reflect-metadata';
import assert from 'node:assert/strict';
import { chmod, chown, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { createLog, type Log } from '../common/logging/logger.js';
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
  const path = (): string => join(dataDir, 'admin-key');
  const fileText = (): Promise<string | null> =>
    readFile(join(dataDir, 'admin-key'), 'utf8').catch(() => null);

  test('are those of the settings and an admin key that is made when they have none', async () => {
    const [client, admin, ...others] = await start([{ scope: 'client', key: 'c' }]);
    assert.deepEqual([client?.key, admin?.scope, admin?.origin, others], ['c', 'admin', 'generated', []]);
    assert.equal(await fileText(), `${admin?.key}\n`);
  });

  test('have one new admin key when several processes start at once', async () => {
    keys.add('h');
    const made = await Promise.all(Array.from({ length: 8 }, () => start()));
    assert.deepEqual(new Set(made.map(([key]) => `${key?.key}\n`)), new Set([await fileText()]));
    assert.equal(lines.filter((line) => line.includes('made one')).length, 1);
  });

  describe('when no file can be made', () => {
    beforeEach(async () => {
      await rm(dataDir, { recursive: true });
      await writeFile(dataDir, '');
    });

    test('are those that there are, and the log says so as an error', async () => {
      keys.add('h');
      assert.deepEqual(await start(), []);
      assert.match(lines.join(''), /"level":"error".*there is no usable admin API key/);
      keys.usable.clear();
      assert.equal((await start([{ scope: 'client', key: 'c' }])).length, 1);
    });

    test('refuse the start if nobody could call otherwise', async () => {
      await assert.rejects(start(), /EEXIST|ENOTDIR/);
    });
  });

  test('keep the admin key that was once made, whatever the database has since', async () => {
    const first = await start();
    keys.add('h', { scopes: ['admin'] });
    assert.deepEqual(await start(), first);
  });

  test('leave the made key out as long as the settings have keys', async () => {
    const [made] = await start();
    const others = await start([{ scope: 'admin', key: 'a' }]);
    assert.ok(others.every(({ key }) => key !== made?.key));
    assert.deepEqual(await start(), [made]);
  });

  describe('refuse the start when the file of the admin key', () => {
    test('can be read or written by others', async () => {
      await start();
      for (const mode of [0o640, 0o604, 0o620, 0o666, 0o777]) {
        await chmod(path(), mode);
        await assert.rejects(
          start(),
          /admin-key is not trusted: it must be .* with mode 600/,
          mode.toString(8),
        );
        assert.equal((await stat(path())).mode & 0o777, mode);
      }
      for (const mode of [0o600, 0o400]) {
        await chmod(path(), mode);
        assert.equal((await start()).length, 1);
      }
    });

    test('belongs to another user', async (t) => {
      if (process.getuid?.() !== 0) return t.skip('only root may give a file away');
      await start();
      await chown(path(), 65_534, 65_534);
      await assert.rejects(start(), /admin-key is not trusted: it must be a file that belongs to the user/);
    });

    test('is a symbolic link or a folder', async () => {
      await start();
      await rename(path(), join(dataDir, 'elsewhere'));
      await symlink('elsewhere', path());
      await assert.rejects(start(), /admin-key cannot be read as a file/);
      await rm(path());
      await symlink('.', path());
      await assert.rejects(start(), /admin-key cannot be read as a file/);
    });

    test('holds a key that is too short', async () => {
      await writeFile(path(), 'short\n', { mode: 0o600 });
      await assert.rejects(start(), /admin-key holds no key of 20 characters/);
    });
  });
});
