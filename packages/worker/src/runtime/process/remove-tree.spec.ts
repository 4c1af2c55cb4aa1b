import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { removeTree } from './remove-tree.js';
import { whileExchanged } from '../../testing/exchange.js';
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

/** Names of files that are in a folder of the tree as in one outside. */
const FILES = Array.from({ length: 3000 }, (_, index) => `file-${index}`);

for (const [what, levels] of [
  ['a tree', 0],
  ['a tree that is deeper than a path may be long', 30],
] as const)
  test.skipIf(process.platform !== 'linux')(
    `removes and changes nothing outside of ${what} while a program exchanges its folders and links`,
    async () => {
      const outside = mkdtempSync(join(base, 'outside-'));
      chmodSync(outside, 0o755);
      const path = mkdtempSync(join(base, 'raced-'));
      const raced = join(path, 'raced');
      mkdirSync(raced);
      nest(path, levels);
      for (const name of FILES) for (const folder of [outside, raced]) writeFileSync(join(folder, name), '');
      symlinkSync(outside, join(path, 'link'));
      await whileExchanged(raced, join(path, 'link'), () => removeTree(path).catch(() => undefined));
      assert.deepEqual(
        [readdirSync(outside).length, (statSync(outside).mode & 0o777).toString(8)],
        [FILES.length, '755'],
      );
      await removeTree(path);
      assert.equal(existsSync(path), false);
    },
  );

test('removes names that are no UTF-8', async () => {
  const path = mkdtempSync(join(base, 'bytes-'));
  const inner = Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0xff, 0xc3])]);
  mkdirSync(inner);
  writeFileSync(Buffer.concat([inner, Buffer.from('/a'), Buffer.from([0xe9])]), '');
  await removeTree(path);
  assert.equal(existsSync(path), false);
});

test('leftovers of any depth do not keep a worker from starting', async () => {
  const folders = new RunFolders('deep', base);
  folders.open();
  mkdirSync(join(folders.root, 'run-1-1-x'));
  nest(join(folders.root, 'run-1-1-x'), 60);
  assert.deepEqual(await folders.removeLeftovers(), { removed: 1, kept: [] });
  assert.deepEqual(readdirSync(folders.root), []);
});
