import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { removeTree } from './remove-tree.js';
import { RunFolders } from './run-folders.js';

const base = mkdtempSync(join(tmpdir(), 'longshore-tree-spec-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const NAME = 'd'.repeat(250);

/** Nests folders far deeper than a path may be long, each closed to its owner. */
function nest(folder: string, levels: number): void {
  const script = `i=0; while [ $i -lt ${levels} ]; do : >file; mkdir ${NAME}; cd -P ${NAME}; i=$((i + 1)); done`;
  execFileSync('/bin/sh', ['-c', script], { cwd: folder });
}

test('removes a tree that is deeper than a path may be long', async () => {
  const path = mkdtempSync(join(base, 'deep-'));
  nest(path, 60);
  mkdirSync(join(path, 'beside', 'below'), { recursive: true });
  await removeTree(path);
  assert.equal(existsSync(path), false);
  await removeTree(path);
});

test('follows no link out of a tree that it has to take apart, and opens closed folders', async () => {
  const outside = mkdtempSync(join(base, 'outside-'));
  writeFileSync(join(outside, 'keep'), '');
  const path = mkdtempSync(join(base, 'links-'));
  symlinkSync(outside, join(path, 'link'));
  mkdirSync(join(path, 'closed'));
  symlinkSync(outside, join(path, 'closed', 'link'));
  chmodSync(join(path, 'closed'), 0);
  nest(path, 30);
  await removeTree(path);
  assert.equal(existsSync(path), false);
  assert.deepEqual(readdirSync(outside), ['keep']);
});

test('leftovers of any depth do not keep a worker from starting', async () => {
  const folders = new RunFolders('deep', base);
  folders.open();
  mkdirSync(join(folders.root, 'run-1-1-x'));
  nest(join(folders.root, 'run-1-1-x'), 60);
  assert.deepEqual(await folders.removeLeftovers(), { removed: 1, kept: [] });
  assert.deepEqual(readdirSync(folders.root), []);
});
