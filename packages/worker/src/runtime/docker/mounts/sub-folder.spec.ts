import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { openSubFolder, type SubFolder } from './sub-folder.js';

/** Neither who runs the tests nor root. */
const STRANGER = { uid: 54_321, gid: 54_321 };

function refused(): Promise<void> {
  return Promise.reject(Object.assign(new Error('no'), { code: 'EPERM' }));
}

const LINK = { name: 'RunFault', message: /is a link, no folder or too long$/ };

describe.skipIf(process.platform !== 'linux')('a folder within a volume', () => {
  let root: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'longshore-volume-'));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  /** The number of the file that is opened. */
  async function opened(path: string, more: Partial<SubFolder> = {}): Promise<number> {
    const folder = await openSubFolder({ volume: 'v', root, path, mayCreate: true, owner: null, ...more });
    try {
      return (await folder.stat()).ino;
    } finally {
      await folder.close();
    }
  }

  it('is created with all its parts, which everybody may write into, or its owner', async () => {
    const ino = await opened('a/b');
    assert.equal(ino, statSync(join(root, 'a/b')).ino);
    const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    await opened('a/c', { owner });
    const modes = ['a', 'a/b', 'a/c'].map((path) => (statSync(join(root, path)).mode & 0o7777).toString(8));
    assert.deepEqual(modes, ['1777', '1777', '755']);
  });

  it('stays as it is when it is there', async () => {
    mkdirSync(join(root, 'a'), 0o700);
    assert.equal(await opened('a'), statSync(join(root, 'a')).ino);
    assert.equal(statSync(join(root, 'a')).mode & 0o7777, 0o700);
  });

  it('is created once by several attempts at a time', async () => {
    const inodes = await Promise.all(Array.from({ length: 20 }, () => opened('x/y/z')));
    assert.equal(new Set(inodes).size, 1);
  });

  it('is finished when an attempt has ended before it gave it away', async () => {
    mkdirSync(join(root, 'a'));
    chmodSync(join(root, 'a'), 0o1700);
    const ino = await opened('a');
    assert.deepEqual([ino, modeOf('a')], [statSync(join(root, 'a')).ino, '1777']);
  });

  for (const [title, chown] of [
    ['refused', refused],
    ['ignored', () => Promise.resolve()],
  ] as const)
    it(`is open to everybody when its file system has ${title} the new owner`, async () => {
      await withHandles({ chown }, () => opened('a/b', { owner: STRANGER }));
      assert.deepEqual([modeOf('a'), modeOf('a/b')], ['1777', '1777']);
    });

  it('is not left behind when its file system sets neither owner nor mode, and the next attempt fails as well', async () => {
    await withHandles({ chown: refused, chmod: refused }, async () => {
      for (let attempt = 1; attempt <= 2; attempt++) {
        await assert.rejects(opened('a', { owner: STRANGER }), {
          name: 'Error',
          message:
            "This worker cannot give the folder 'a' of the volume 'v' to the user of the run: its file system sets neither owner nor mode",
        });
        assert.deepEqual(readdirSync(root), []);
      }
    });
  });

  /** Replaces what open folders do, for the time of a task. */
  async function withHandles(
    methods: Partial<Pick<FileHandle, 'chown' | 'chmod'>>,
    task: () => Promise<unknown>,
  ): Promise<void> {
    const folder = await open(root);
    const shared: FileHandle = Object.getPrototypeOf(folder);
    await folder.close();
    const before = Object.getOwnPropertyDescriptors(shared);
    try {
      Object.assign(shared, methods);
      await task();
    } finally {
      Object.defineProperties(shared, before);
    }
  }

  function modeOf(path: string): string {
    return (statSync(join(root, path)).mode & 0o7777).toString(8);
  }

  it('is not created where the run only reads', async () => {
    await assert.rejects(opened('a/b', { mayCreate: false }), {
      name: 'RunFault',
      message: "There is no folder 'a/b' of the volume 'v'",
    });
    assert.deepEqual(readdirSync(root), []);
  });

  it('is refused with a link or a file in its path, and when it is too long', async () => {
    symlinkSync(tmpdir(), join(root, 'out'));
    symlinkSync('none', join(root, 'dangling'));
    writeFileSync(join(root, 'file'), '');
    for (const path of ['out', 'out/a', 'dangling', 'dangling/a', 'file', 'file/a', 'x'.repeat(256)])
      await assert.rejects(opened(path), LINK, path);
    assert.deepEqual(readdirSync(root).toSorted(), ['dangling', 'file', 'out']);
  });

  it('cannot be had of a volume that is missing, without a word about where it was', async () => {
    await assert.rejects(opened('a', { root: join(root, 'none') }), {
      name: 'Error',
      message: "The volume 'v' is missing on this worker",
    });
  });
});
