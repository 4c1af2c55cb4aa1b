import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './root.mjs';

/** Keys of the service under test, by scope. */
export const KEY = 'bench-admin-key';

/**
 * Starts the built service with a PostgreSQL of its own and durability on.
 * @param env settings on top of the usual
 * @param nodeOptions options of the service's node, for example `--cpu-prof`
 * @returns its URL, its process id, the CPU seconds it has used, and how to stop it
 */
export async function startService(env = {}, nodeOptions = []) {
  const dataDir = await mkdtemp(join(tmpdir(), 'longshore-bench-'));
  const child = spawn(
    process.execPath,
    [...nodeOptions, join(ROOT, process.env.BENCH_DIST ?? 'dist', 'src/main.js'), '--port', '0'],
    {
      env: {
        PATH: process.env.PATH,
        SERVICE_DATA_DIR: dataDir,
        SERVICE_API_KEYS: `admin:${KEY}`,
        SERVICE_LOG_LEVEL: 'warning',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const url = await listening(child);
  return {
    url,
    pid: child.pid,
    cpuSeconds: () => cpuSecondsOf(child.pid),
    async stop() {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function listening(child) {
  let output = '';
  for await (const chunk of child.stdout) {
    output += chunk;
    const [, url] = /listening on (http:\/\/[^\s"]+)/.exec(output) ?? [];
    if (url) {
      child.stdout.resume();
      return url;
    }
  }
  throw new Error(`the service did not start: ${output}`);
}

/** CPU seconds that a process has used, on Linux; NaN elsewhere. */
async function cpuSecondsOf(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return Number.NaN;
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) / 100;
}
