import { access, chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeApiKey } from './api-key.js';

/** A key kept in a file that only its owner can read. */
export interface AdminKeyFile {
  readonly key: string;
  readonly path: string;
  /** True when this call made it. */
  readonly created: boolean;
}

/** Whether an admin key was made in this data folder before. */
export function hasAdminKey(dataDir: string): Promise<boolean> {
  return access(pathIn(dataDir)).then(
    () => true,
    () => false,
  );
}

/**
 * The admin key of an installation that was given none: made at the first start, read at the next ones.
 * Several processes may start at once: one makes it, the others read that one.
 * @throws Error when the file cannot be written or is empty
 */
export async function ensureAdminKey(dataDir: string): Promise<AdminKeyFile> {
  const path = pathIn(dataDir);
  await mkdir(dataDir, { recursive: true });
  const fresh = makeApiKey('admin');
  try {
    await writeFile(path, `${fresh}\n`, { mode: 0o600, flag: 'wx' });
    return { key: fresh, path, created: true };
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
  await chmod(path, 0o600);
  const key = (await readWhenWritten(path)).trim();
  if (key === '') throw new Error(`${path} is empty: remove it to have a new admin key made`);
  return { key, path, created: false };
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'admin-key');
}

/** The file's maker creates and fills it in two steps; a reader in between waits for the second. */
async function readWhenWritten(path: string): Promise<string> {
  for (let tries = 0; tries < 20; tries += 1) {
    const text = await readFile(path, 'utf8');
    if (text.endsWith('\n')) return text;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return readFile(path, 'utf8');
}
