import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT } from '../service-process.js';

/** The example worker. */
export const EXAMPLE_WORKER = join(PROJECT, 'examples', 'worker', 'worker.py');

/** The worker that has nothing but what the conformance kit asks for. */
export const SMALLEST_WORKER = join(PROJECT, 'examples', 'worker', 'smallest.py');

/** Text of the example worker, and what stands there instead. */
export type Change = readonly [from: string, to: string];

/** What the example worker has beyond interface.md and decisions.md, and what stands there in a worker written to these. */
export const OLDER_WORKER: readonly Change[] = [
  ['CAPABILITIES = ["env", "command", "secrets"]', 'CAPABILITIES = []'],
  ['UNSUPPORTED = {', 'UNSUPPORTED = {"env", "command", "args", "secrets", '],
  ['plain = False  #', 'plain = True  #'],
  ['    if "scheduled_for" in op:', '    if False:'],
  ['    if "array" in op:', '    if False:'],
  ['tells, lost = "lost_ops" in answer, answer.get("lost_ops", []) if named else []', 'lost = []'],
];

/** Writes a program: the example worker with changes. @returns the command that starts it */
export async function writeWorker(changes: readonly Change[], folder: string): Promise<string> {
  let text = await readFile(EXAMPLE_WORKER, 'utf8');
  for (const [from, to] of changes) {
    assert.equal(text.split(from).length, 2, `the example worker holds this once: ${from}`);
    text = text.replace(from, () => to);
  }
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'worker.py');
  await writeFile(path, text);
  return `python3 '${path}'`;
}

/** Why Python cannot be asked for here; false when it can, and where it must be there. */
export function whyNoPython(): string | false {
  // Debian's python3-minimal has neither.
  const isThere = spawnSync('python3', ['-c', 'import http.client, json']).status === 0;
  return isThere || process.env['CI'] !== undefined
    ? false
    : 'python3 or its standard library is not installed';
}
