import { createHash, randomBytes } from 'node:crypto';
import {
  chown,
  mkdir,
  open,
  readFile,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { accountCan, accountForNewCluster, accountOfCluster, runningAsRoot } from './database-account.js';
import type { DatabaseAccount } from './database-account.js';
import { pathExists, type PostgresBinaries } from './postgres-binaries.js';
import { errorCode, runProgram } from './run-program.js';

/** Superuser of an embedded cluster. */
export const CLUSTER_USER = 'longshore';

const CLUSTER_NAME = 'postgres';
const UNFINISHED_PREFIX = `${CLUSTER_NAME}.init-`;

type Log = (message: string, fields?: object) => void;

export interface ClusterPlace {
  /** Absolute path; real once it exists. */
  readonly cluster: string;
  readonly exists: boolean;
  readonly account: DatabaseAccount;
  /** The link in the data directory to a cluster outside of it. */
  readonly link: string | undefined;
}

/**
 * Finds the place of the cluster: `<dataDir>/postgres`. If the service is root and the database's account cannot enter the
 * data directory, a new cluster is in a directory of its own under `outside`, and `<dataDir>/postgres` is a link to it.
 * @param dataDir absolute, real, existing
 * @throws Error with the reason
 */
export async function placeCluster(dataDir: string, outside: string): Promise<ClusterPlace> {
  const wanted = join(dataDir, CLUSTER_NAME);
  const found = await findRealPath(wanted);
  // Before `holdsCluster`, because the cluster of another user is not readable.
  if (found !== null && !runningAsRoot()) await accountOfCluster(found, await stat(found));
  if (found !== null && (await holdsCluster(found))) {
    const account = await accountOfCluster(found, await stat(found));
    if (!runningAsRoot() || (await accountCan(account, '-x', found))) {
      return { cluster: found, exists: true, account, link: undefined };
    }
    throw new Error(
      `The database in ${found} cannot be entered by the account '${account.name}' that owns it. ` +
        `Make the directories above it enterable (chmod o+x), or move it, with its owner kept, and link it to ${wanted}.`,
    );
  }
  const account = await accountForNewCluster();
  if (!runningAsRoot() || (await accountCan(account, '-x', dataDir))) {
    return { cluster: wanted, exists: false, account, link: undefined };
  }
  const directory = await makeOutsideDirectory(dataDir, outside);
  return { cluster: join(directory, CLUSTER_NAME), exists: false, account, link: wanted };
}

/**
 * Creates the cluster atomically: under a temporary name, then renamed. Without effect if another process creates it first.
 * @throws Error with the output of initdb
 */
export async function createCluster(
  place: ClusterPlace,
  binaries: PostgresBinaries,
  options: { readonly durable: boolean; readonly log: Log },
): Promise<void> {
  const { cluster, link, account } = place;
  const parent = dirname(cluster);
  const temporary = join(parent, `${UNFINISHED_PREFIX}${randomBytes(6).toString('hex')}`);
  try {
    await mkdir(temporary, { mode: 0o700 });
    if (account.runAs !== undefined) await chown(temporary, account.uid, account.gid);
    await initialize(temporary, place, binaries, options.durable);
    await rename(temporary, cluster);
    if (link !== undefined) {
      await flushDirectory(parent);
      await symlink(cluster, link);
    }
  } catch (error) {
    // A parent of a linked cluster is of this attempt alone.
    await rm(link === undefined ? temporary : parent, { recursive: true, force: true, maxRetries: 5 });
    if (await pathExists(join(link ?? cluster, 'PG_VERSION'))) return;
    throw error;
  }
  await flushDirectory(dirname(link ?? cluster));
  options.log('created a new database', { directory: cluster, account: account.name });
}

async function initialize(
  directory: string,
  { account }: ClusterPlace,
  binaries: PostgresBinaries,
  durable: boolean,
): Promise<void> {
  const { code, signal, output } = await runProgram(
    binaries.initdb,
    [
      '-D',
      directory,
      `--username=${CLUSTER_USER}`,
      '--auth=trust',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--no-instructions',
      ...(durable ? [] : ['--no-sync']),
    ],
    account.runAs,
  );
  if (code === 0) return;
  throw new Error(
    `Creating the database in ${dirname(directory)} failed (${signal ?? `exit code ${code}`}): ${output}`,
  );
}

/**
 * Removes what interrupted attempts to create the cluster left beside it. For the owner: others that create it meanwhile
 * are refused later. What cannot be removed is left for the next start.
 */
export async function removeUnfinished(cluster: string): Promise<void> {
  const parent = dirname(cluster);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(UNFINISHED_PREFIX)) continue;
    await rm(join(parent, name), { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined);
  }
}

/** @throws Error when another major version of PostgreSQL created the cluster */
export async function checkClusterVersion(cluster: string, majorVersion: string): Promise<void> {
  const version = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim();
  if (version === majorVersion) return;
  throw new Error(
    `The database in ${cluster} was made by PostgreSQL ${version}; this release brings PostgreSQL ${majorVersion}. ` +
      'Dump it with the older release and load it into a new data directory.',
  );
}

async function findRealPath(wanted: string): Promise<string | null> {
  try {
    return await realpath(wanted);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  const target = await readlink(wanted).catch(() => null);
  if (target === null) return null;
  throw new Error(
    `${wanted} says that the database is in ${target}, and there is none. ` +
      'Bring it back, or remove the link to start with an empty database.',
  );
}

/** @throws Error when the directory contains something else */
async function holdsCluster(path: string): Promise<boolean> {
  const names = await readdir(path);
  if (names.includes('PG_VERSION')) return true;
  if (names.length === 0) return false;
  throw new Error(
    `${path} is not empty and holds no database; move it away or choose another SERVICE_DATA_DIR.`,
  );
}

/** Makes a new directory each time, so that a deleted data directory starts with a new cluster. */
async function makeOutsideDirectory(dataDir: string, outside: string): Promise<string> {
  await mkdir(outside, { recursive: true, mode: 0o755 });
  const digest = createHash('sha256').update(dataDir).digest('hex').slice(0, 12);
  const directory = join(outside, `${digest}-${randomBytes(4).toString('hex')}`);
  await mkdir(directory, { mode: 0o755 });
  return directory;
}

async function flushDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
