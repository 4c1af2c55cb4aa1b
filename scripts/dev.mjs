/* oxlint-disable no-console -- a command for the terminal */
// `npm run dev`: the service, which restarts after each change, a worker, and the dashboard with hot reload. Ctrl-C ends
// all of them, and so does the end of one.
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SERVICE_URL = `http://127.0.0.1:${process.env.SERVICE_PORT ?? '5555'}`;
const DATA_DIR = process.env.SERVICE_DATA_DIR ?? join(ROOT, '.data');

const children = [];
const stopped = new AbortController();

function run(name, argv, env = {}) {
  const child = spawn(process.execPath, argv, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  children.push(child);
  child.once('exit', (code) => {
    if (!stopped.signal.aborted) {
      console.error(`${name} ended with exit code ${code}: stopping the others`);
      process.exitCode = 1;
      stopAll('SIGTERM');
    }
  });
}

/** A terminal sends Ctrl-C to every process; the programs take the same signal twice as one. */
function stopAll(signal) {
  stopped.abort();
  for (const child of children) {
    child.kill(signal);
  }
}

async function untilReady() {
  while (!stopped.signal.aborted) {
    const answer = await fetch(`${SERVICE_URL}/health`).catch(() => undefined);
    if (answer?.ok) return;
    await sleep(200);
  }
}

async function findKey() {
  return process.env.SERVICE_API_KEY ?? (await readFile(join(DATA_DIR, 'admin-key'), 'utf8')).trim();
}

process.on('SIGINT', stopAll);
process.on('SIGTERM', stopAll);

run('the service', ['scripts/run.mjs', 'service', '--reload']);
await untilReady();
if (!stopped.signal.aborted) {
  run('the worker', ['scripts/run.mjs', 'worker'], { SERVICE_URL, SERVICE_API_KEY: await findKey() });
  run('the dashboard', ['node_modules/vite/bin/vite.js', 'packages/dashboard'], { SERVICE_URL });
}
