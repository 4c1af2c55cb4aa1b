import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { makeDataFolder } from '../lib/servers/data-folder.mjs';
import { stoppedAtTheEnd } from '../lib/servers/leftovers.mjs';
import { startService } from '../lib/servers/service.mjs';
import { FILLING, withConnections, withDatabase } from './database.mjs';
import { fill } from './seed.mjs';

const run = promisify(execFile);

/**
 * Numbers of runs to measure with: those given or, where BENCH_SIZES lists others (`1000,100000`), those instead.
 */
export function sizesOf(usual) {
  return process.env.BENCH_SIZES ? process.env.BENCH_SIZES.split(',').map(Number) : usual;
}

/**
 * Starts the service on a database that holds so many finished and pending runs; the folder goes with it. Databases
 * of finished runs are kept in the folder BENCH_SEED_DIR, if it is set, and copied from there the next time.
 * @param shape `env`: settings of the service; `add`: SQL scripts that change the rows before the service starts
 * @returns what `startService` answers, and `query(sql, params)`: rows of a statement on its database
 */
export async function startSeeded({ finished, pending = 0, env = {}, add }) {
  const folder = await makeDataFolder();
  const removed = stoppedAtTheEnd(() => folder.remove());
  const kept = process.env.BENCH_SEED_DIR;
  if (kept && finished > 0) {
    const template = join(kept, `finished-${finished}-pending-${pending}`);
    if (!(await exists(template))) await makeTemplate(template, finished, pending);
    await run('cp', ['-a', '--reflink=auto', `${template}/.`, folder.path]);
    await chmod(folder.path, 0o755);
  } else {
    await seed(folder.path, finished, pending);
  }
  if (add !== undefined) {
    await withDatabase(folder.path, FILLING, async (connect) => {
      const client = await connect();
      for (const sql of [add].flat()) await client.query(sql);
    });
  }
  const service = await startService({ ...env, SERVICE_DATA_DIR: folder.path });
  const url = await databaseUrl(folder.path);
  return {
    ...service,
    databaseUrl: url,
    query: (sql, params) =>
      withConnections(url, async (connect) => {
        const client = await connect();
        const { rows } = await client.query(sql, params);
        return rows;
      }),
    async stop() {
      await service.stop();
      await removed();
    },
  };
}

/** Under another name until it is complete. */
async function makeTemplate(template, finished, pending) {
  const unfinished = `${template}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true, mode: 0o755 });
  await chmod(dirname(template), 0o755);
  await seed(unfinished, finished, pending);
  await rename(unfinished, template);
}

function seed(dataDir, finished, pending) {
  return withDatabase(dataDir, FILLING, (_connect, url) => fill(url, { finished, pending }));
}

async function databaseUrl(dataDir) {
  const { serverUrl } = await import('@longshore/embedded-postgres/server-process');
  const text = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8');
  return serverUrl(text.split('\n')[4]);
}

function exists(path) {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** A number of runs as people say it. */
export function inWords(count) {
  if (count >= 1_000_000) return `${count / 1_000_000} M`;
  return count >= 1_000 ? `${count / 1_000} k` : String(count);
}
