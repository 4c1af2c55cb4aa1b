import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve as resolvePath } from 'node:path';
import { readCpuSeconds } from './cpu.mjs';
import { makeDataFolder } from './data-folder.mjs';
import { stoppedAtTheEnd } from './leftovers.mjs';
import { ROOT } from '../root.mjs';

/** A key of the service under test that may do everything. */
export const KEY = 'bench-admin-key-of-the-benchmarks';

/** How long the service may take to start, in milliseconds: a database of millions may have to recover first. */
const START_MS = 300_000;

/**
 * Starts the built service with a PostgreSQL of its own and durability on.
 * @param env settings on top of the usual
 * @param options `dist`: the folder of the build, BENCH_DIST or dist/ unless given; `nodeOptions`: options of the
 *   service's node, for example `--cpu-prof`; `onError`: gets what it writes to standard error, which is otherwise shown
 * @returns its URL, its process id, the CPU seconds it has used, and how to stop it
 */
export async function startService(
  env = {},
  { dist = process.env.BENCH_DIST ?? 'dist', nodeOptions = [], onError } = {},
) {
  const folder = await makeDataFolder();
  const child = spawn(
    process.execPath,
    [...nodeOptions, resolvePath(ROOT, dist, 'src/main.js'), '--port', '0'],
    {
      env: {
        PATH: process.env.PATH,
        SERVICE_DATA_DIR: folder.path,
        SERVICE_API_KEYS: `admin:${KEY}`,
        SERVICE_LOG_LEVEL: 'warning',
        // All clients of a benchmark share one key.
        SERVICE_READERS_PER_KEY: '5000',
        ...env,
      },
      stdio: ['ignore', 'pipe', onError ? 'pipe' : 'inherit'],
    },
  );
  child.stderr?.on('data', (chunk) => onError(String(chunk)));
  const gone = once(child, 'exit');
  const stop = stoppedAtTheEnd(async () => {
    child.kill('SIGTERM');
    await gone;
    await folder.remove();
  });
  try {
    const url = await listening(child, gone);
    return { url, pid: child.pid, cpuSeconds: () => readCpuSeconds(child.pid), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function listening(child, gone) {
  let output = '';
  const told = new Promise((resolve) => {
    child.stdout.on('data', (chunk) => {
      if (output === null) return;
      output += chunk;
      const [, url] = /listening on (http:\/\/[^\s"]+)/.exec(output) ?? [];
      if (url === undefined) return;
      output = null;
      resolve(url);
    });
  });
  let timer;
  const failed = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the service did not start: ${output}`)), START_MS);
  });
  const ended = gone.then(() => {
    throw new Error(`the service ended instead of starting: ${output}`);
  });
  try {
    return await Promise.race([told, failed, ended]);
  } finally {
    clearTimeout(timer);
    ended.catch(() => undefined);
  }
}
