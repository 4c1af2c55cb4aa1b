import { constants, existsSync } from 'node:fs';
import { mkdir, open, writeFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../common/logging/logger.js';
import { MIN_KEY_LENGTH, type ApiKeySetting } from '../config/key-settings.js';
import type { Settings } from '../config/settings.js';
import { makeApiKey } from './api-key.js';
import type { ApiKeysRepository } from './api-keys.repository.js';

/** Injection token of the keys that are valid for the lifetime of the process. */
export const STARTUP_KEYS = Symbol('STARTUP_KEYS');

/** `key` is the secret itself. */
export interface StartupKey extends ApiKeySetting {
  /** The first half of the caller's name. */
  readonly origin: 'settings' | 'generated';
}

/**
 * The keys of the settings. Without an admin key among them: also the admin key in the data folder, which is made when the
 * database has no usable admin key either. It stays valid until its file is removed.
 * @throws Error when the file cannot be read, cannot be written while there is no other key, or the database fails
 */
export async function startupKeys(
  { apiKeys, dataDir }: Pick<Settings, 'apiKeys' | 'dataDir'>,
  keys: ApiKeysRepository,
  log: Log,
): Promise<readonly StartupKey[]> {
  const given = apiKeys.map((key): StartupKey => ({ ...key, origin: 'settings' }));
  if (given.some(({ scope }) => scope === 'admin')) return given;
  const path = join(dataDir, 'admin-key');
  if (existsSync(path)) {
    log.info(`the admin API key is in ${path}`);
  } else {
    if (await keys.hasUsable('admin')) {
      log.info('admin API keys come from the database alone');
      return given;
    }
    try {
      await mkdir(dataDir, { recursive: true });
      if (await createFile(path, makeApiKey('admin'))) {
        log.warn(`there was no usable admin API key: made one, kept in ${path}`);
      }
    } catch (error) {
      if (given.length === 0 && !(await keys.hasUsable())) throw error;
      log.error(`there is no usable admin API key, and none can be made in ${path}`, { error });
      return given;
    }
  }
  return [...given, { scope: 'admin', key: await readKey(path), origin: 'generated' }];
}

/** Several processes may start at once: one creates the file, the others read it. @returns whether this one created it */
async function createFile(path: string, key: string): Promise<boolean> {
  try {
    await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** @throws Error unless the file is a regular one of this process's user, which no other user may read or write */
async function readKey(path: string): Promise<string> {
  // A symbolic link is not followed, and a pipe does not block.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error: unknown) => {
      throw new Error(`${path} cannot be read as a file: ${String(error)}`, { cause: error });
    },
  );
  try {
    await assertPrivate(path, file);
    let text = await file.readFile('utf8');
    // The process that creates the file writes it in a second step.
    for (let tries = 0; tries < 20 && !text.endsWith('\n'); tries += 1) {
      await sleep(50);
      text += await file.readFile('utf8');
    }
    const key = text.trim();
    if (key.length >= MIN_KEY_LENGTH) return key;
    throw new Error(
      `${path} holds no key of ${MIN_KEY_LENGTH} characters: remove it to have a new admin key made`,
    );
  } finally {
    await file.close();
  }
}

async function assertPrivate(path: string, file: FileHandle): Promise<void> {
  const status = await file.stat();
  const user = process.getuid?.();
  const isOwn = user === undefined || (status.uid === user && (status.mode & 0o077) === 0);
  if (status.isFile() && isOwn) return;
  throw new Error(
    `${path} is not trusted: it must be a file that belongs to the user of the service, with mode 600. ` +
      'Remove it to have a new admin key made, or run chown and chmod',
  );
}
