import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import { containerSpec, MemoryLog } from '../../testing/container-spec.js';
import type { RunningContainer } from '../runtime.js';
import { processTrees, type ListedProcess } from './process-table.js';
import { ProcessRuntime } from './process.runtime.js';
import { RunFolders } from './run-folders.js';

const root = mkdtempSync(join(tmpdir(), 'longshore-sentinel-'));
const folders = new RunFolders('w-1', root);
afterAll(() => rmSync(root, { recursive: true, force: true }));

const TRAP = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";

/** Needs /proc. */
describe.runIf(process.platform === 'linux')('a program', () => {
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

/** A container that has printed its first line. */
async function ready(script: string): Promise<RunningContainer> {
  const program = join(root, 'images', 'tool', 'program');
  mkdirSync(join(root, 'images', 'tool'), { recursive: true });
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  const log = new MemoryLog();
  const runtime = new ProcessRuntime({ imagesDir: join(root, 'images'), folders, log, env: {} });
  const container = await runtime.start(containerSpec('tool'));
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
