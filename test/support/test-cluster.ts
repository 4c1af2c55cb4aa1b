import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { readPostmasterFile, servesCluster } from '@longshore/embedded-postgres/postmaster-file';
import { processRuns } from './programs/child-processes.js';

/** Before the pid of the process that made a directory. */
const PREFIX = 'longshore-tests-';

/** Settings of a cluster that nobody will miss: it does not wait for the disk. */
export const THROW_AWAY = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  // Databases of tests live for seconds.
  autovacuum_naptime: '1h',
  checkpoint_timeout: '1h',
  max_wal_size: '4GB',
} as const;

/** A PostgreSQL for one test run. */
export interface TestCluster {
  readonly url: string;
  /** Stops the server and removes its files. */
  stop(): Promise<void>;
}

/**
 * Starts an empty PostgreSQL of its own in the temporary folder. What test runs left behind that were killed
 * before they could tidy up (see {@link makeTestDirectory}) is removed on the way.
 */
export async function startTestCluster(): Promise<TestCluster> {
  await removeAbandoned();
  const directory = await makeTestDirectory('cluster-');
  const server = await startEmbeddedPostgres({
    dataDir: join(directory, 'data'),
    serverOptions: THROW_AWAY,
    log: () => undefined,
  });
  return {
    url: server.url,
    stop: async () => {
      try {
        await server.stop();
      } finally {
        await endServer(join(directory, 'data', 'postgres'));
        await rm(directory, { recursive: true, force: true, maxRetries: 5 });
      }
    },
  };
}

/** A new directory in the temporary folder that every account can enter; its name tells which process made it. */
export async function makeTestDirectory(name: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-${name}`));
  await chmod(directory, 0o711);
  return directory;
}

/** Ends the server of a cluster at once, whoever is connected; does nothing when none runs. */
export async function endServer(cluster: string): Promise<void> {
  const file = await readPostmasterFile(cluster);
  if (file === null || !(await servesCluster(file.pid, cluster))) return;
  process.kill(file.pid, 'SIGQUIT');
  for (let tries = 0; tries < 200 && (await servesCluster(file.pid, cluster)); tries += 1) await sleep(50);
}

async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(tmpdir(), name);
    if (await processRuns(Number.parseInt(name.slice(PREFIX.length), 10))) continue;
    try {
      for (const path of await readdir(directory, { recursive: true })) {
        if (basename(path) === 'postmaster.pid') await endServer(dirname(join(directory, path)));
      }
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    } catch {
      // Another user's: theirs to remove.
    }
  }
}
