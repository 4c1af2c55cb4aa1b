import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import {
  launch,
  makeDataDir,
  processesNaming,
  PROJECT,
  type ProcessOptions,
  type TestProcess,
} from '../service-process.js';

/** A demo as a process of its own. */
export interface DemoProcess extends TestProcess {
  readonly dataDir: string;
}

/** Starts the demo on a free port, with the runtime that needs no container engine. */
export async function startDemo(options: ProcessOptions = {}): Promise<DemoProcess> {
  const dataDir = await makeDataDir(options.user);
  const demo = await launch(join(PROJECT, '.build', 'demo', 'demo', 'main.js'), {
    ...options,
    env: demoEnvironment(dataDir, options.env),
  });
  return Object.assign(demo, { dataDir });
}

/** What a demo under test is told. */
export function demoEnvironment(
  dataDir: string,
  env: ProcessOptions['env'] = {},
): Readonly<Record<string, string>> {
  // What the worker keeps in the temporary folder goes with the data directory.
  const places = { SERVICE_DATA_DIR: dataDir, TMPDIR: dataDir };
  return { SERVICE_PORT: '0', SERVICE_WORKER_RUNTIME: 'process', ...places, ...env };
}

/** The pids of a demo's service or worker. */
export async function childPids(
  { dataDir }: Pick<DemoProcess, 'dataDir'>,
  name: 'service' | 'worker',
): Promise<readonly number[]> {
  const script = name === 'service' ? '/src/main.js' : '/worker/dist/main.js';
  const found = (await processesOf(dataDir)).filter(({ command }) => command.includes(script));
  return found.map(({ pid }) => pid);
}

/** @throws AssertionError when a process of the demo still runs: service, worker, database or an example */
export async function assertNothingLeft({ dataDir }: Pick<DemoProcess, 'dataDir'>): Promise<void> {
  assert.equal(await readPostmasterFile(join(dataDir, 'postgres')), null, 'the database still runs');
  assert.deepEqual(await processesOf(dataDir), []);
}

function processesOf(dataDir: string): ReturnType<typeof processesNaming> {
  // The programs of the examples know nothing but the folder of their run, which names the worker.
  const worker = `demo-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`;
  return processesNaming([dataDir, worker]);
}
