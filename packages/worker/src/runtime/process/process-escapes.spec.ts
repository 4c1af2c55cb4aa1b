import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, describe, it, onTestFinished, vi } from 'vitest';
import { containerSpec, MemoryLog } from '../../testing/container-spec.js';
import type { RunningContainer } from '../runtime.js';
import { processStamp, processTrees, RunProcesses, type ListedProcess } from './process-table.js';
import { ProcessRuntime } from './process.runtime.js';
import { RunFolders } from './run-folders.js';

const root = mkdtempSync(join(tmpdir(), 'longshore-escapes-'));
const pidFile = join(root, 'pid');
const program = join(root, 'images', 'tool', 'program');
mkdirSync(join(root, 'images', 'tool'), { recursive: true });
writeFileSync(program, '#!/bin/sh\n');
chmodSync(program, 0o755);
afterAll(() => rmSync(root, { recursive: true, force: true }));

const log = new MemoryLog();
const folders = new RunFolders('w-1', root);
const runtime = new ProcessRuntime({
  imagesDir: join(root, 'images'),
  folders,
  log,
  env: process.env,
});

/** In a session of its own: writes its pid. */
const ESCAPED = `setsid sh -c "echo \\$\\$ >${pidFile}; exec sleep 600"`;
/** The same without environment; its parent is in the group of the program. */
const CLEARED = `sh -c 'env -i PATH="$PATH" ${ESCAPED}; :' & until [ -s ${pidFile} ]; do sleep 0.02; done`;

const TRAP = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";

/** Needs /proc. */
describe.runIf(process.platform === 'linux')('the program of a run', () => {
  it('that ends by the signal that all processes of the worker get has not ended by itself, whatever its exit code', async () => {
    for (const script of [TRAP, 'echo ready; exec sleep 60']) {
      const container = await ready(script);
      for (const pid of childPids()) process.kill(pid, 'SIGTERM');
      await assert.rejects(container.exit, {
        name: 'Error',
        message: 'The program ended when all processes of the worker were sent SIGTERM',
      });
      await container.remove();
    }
  });

  it('that ends by a signal to it alone has ended by itself', async () => {
    const container = await ready(TRAP);
    const [note = ''] = readdirSync(folders.notes);
    process.kill(Number.parseInt(note, 10), 'SIGTERM');
    assert.equal((await container.exit).exitCode, 0);
    await container.remove();
  });
});

/** Needs /proc. */
describe.runIf(process.platform === 'linux')('the processes of a run', () => {
  it('end in another session, and where they have cleared their environment, and no other process', async () => {
    const mark = `SERVICE_INPUT_PATH=/tmp/${process.pid}-escapes/input.json`;
    const [name = '', value] = mark.split('=');
    const env = { PATH: process.env['PATH'], [name]: value };
    const script = `setsid sh -c 'env -i sleep 600 & echo $!; wait' & wait`;
    const leader = spawn('sh', ['-c', script], {
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const stranger = spawn('sleep', ['600'], { env: { ...env, [name]: `${value}.other` }, stdio: 'ignore' });
    const { pid = 0 } = leader;
    for (const one of [pid, stranger.pid ?? 0]) killAtEnd(one);
    const child = await printedPid(leader.stdout);
    killAtEnd(child);
    const processes = new RunProcesses(mark, pid);
    assert.equal(processes.isAlive, true);
    process.kill(-pid, 'SIGTERM');
    await once(leader, 'exit');
    assert.notEqual(processStamp(child), null);
    await processes.kill();
    assert.equal(processes.isAlive, false);
    assert.equal(processStamp(child), null);
    assert.notEqual(processStamp(stranger.pid ?? 0), null);
  });

  it('end with a program whose group has the parent of one that has cleared its environment', async () => {
    const { container, escaped } = await started(CLEARED);
    assert.equal((await container.exit).exitCode, 0);
    assert.equal(processStamp(escaped), null);
  });

  it('end with a cancel that ends the parent of one that has cleared its environment', async () => {
    const { container, escaped } = await started(`${CLEARED}; wait`);
    await container.stop(3_600);
    assert.equal((await container.exit).exitCode, 143);
    assert.equal(processStamp(escaped), null);
  });

  it('that may not be killed are left to the next search for leftovers, after one try and a warning', async () => {
    const { container, escaped } = await started(`${ESCAPED} & wait`);
    const kill = process.kill.bind(process);
    let tries = 0;
    const refusal = vi.spyOn(process, 'kill').mockImplementation((pid, name) => {
      if (pid !== escaped) return kill(pid, name);
      tries += 1;
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
    });
    await container.stop(0);
    assert.equal((await container.exit).exitCode, 143);
    assert.equal(tries, 1);
    assert.equal(await runtime.removeLeftovers(), 0);
    assert.deepEqual(
      log.warnings.map(({ fields }) => Reflect.get(fields, 'error')),
      [`Processes live on: ${escaped}`],
    );
    refusal.mockRestore();
    assert.equal(await runtime.removeLeftovers(), 1);
    assert.equal(processStamp(escaped), null);
    assert.deepEqual(readdirSync(folders.notes), []);
  });

  it('end although the worker has no file descriptor left to read the table of processes for a time', async () => {
    const mark = `SERVICE_INPUT_PATH=/tmp/${process.pid}-descriptors/input.json`;
    const [name = '', value] = mark.split('=');
    const marked = spawn('sleep', ['600'], {
      env: { PATH: process.env['PATH'], [name]: value },
      stdio: 'ignore',
    });
    killAtEnd(marked.pid ?? 0);
    const module = new URL('../../../dist/runtime/process/process-table.js', import.meta.url).href;
    const code = `
      const { RunProcesses } = await import(${JSON.stringify(module)});
      const { closeSync, openSync } = await import('node:fs');
      const open = [];
      try { for (;;) open.push(openSync('/dev/null')); } catch {}
      const killed = new RunProcesses(${JSON.stringify(mark)}, null).kill();
      setImmediate(() => open.forEach((descriptor) => closeSync(descriptor)));
      await killed;`;
    const worker = ['-c', 'ulimit -n 100; exec "$0" --input-type=module -e "$1"', process.execPath, code];
    await promisify(execFile)('sh', worker);
    assert.equal(processStamp(marked.pid ?? 0), null);
  });
});

function execute(script: string): Promise<RunningContainer> {
  return runtime.start({ ...containerSpec('tool'), command: ['/bin/sh', '-c', script] });
}

/** A container that has printed its first line. */
async function ready(script: string): Promise<RunningContainer> {
  const container = await execute(script);
  const { value } = await container.lines[Symbol.asyncIterator]().next();
  assert.equal(value?.text, 'ready');
  return container;
}

/** Children that lead their own groups: not those of the test runner. */
function childPids(): number[] {
  return processTrees(isLeader).flatMap((one) => (isLeader(one) ? [one.pid] : []));
}

function isLeader({ pid, parent, group }: ListedProcess): boolean {
  return parent === process.pid && pid === group;
}

/** Starts a script; resolves when it has written the pid of its process that leaves the group. */
async function started(script: string): Promise<{ container: RunningContainer; escaped: number }> {
  rmSync(pidFile, { force: true });
  const container = await execute(script);
  while (!existsSync(pidFile) || readFileSync(pidFile, 'utf8') === '') await sleep(10);
  const escaped = Number(readFileSync(pidFile, 'utf8'));
  killAtEnd(escaped);
  return { container, escaped };
}

/** Kills a process that a failed test leaves. */
function killAtEnd(pid: number): void {
  onTestFinished(() => {
    if (processStamp(pid) !== null) process.kill(pid, 'SIGKILL');
  });
}

async function printedPid(output: NodeJS.ReadableStream): Promise<number> {
  const [printed] = await once(output, 'data');
  return Number(String(printed));
}
