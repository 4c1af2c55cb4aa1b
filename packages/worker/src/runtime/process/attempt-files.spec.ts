import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { RunFault, type FetchedEntry, type FetchedSource } from '../runtime.js';
import { endedFiles, fillFilesRoot } from './attempt-files.js';

let base = '';
let root = '';
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'attempt-'));
  root = join(base, 'run', 'files');
  mkdirSync(root, { recursive: true });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function source(
  path: string,
  kind: FetchedSource['kind'],
  ...entries: readonly FetchedEntry[]
): FetchedSource {
  return { path, kind, entries: () => Readable.from(entries) };
}

const file = (path: string, content: string, mode = 0o444): FetchedEntry => ({
  kind: 'file',
  path,
  mode,
  bytes: content.length,
  content: Readable.from([Buffer.from(content)]),
});

describe('the files of a process', () => {
  it('are below the folder of the attempt, read-only, beside the folders for what it gives', async () => {
    const fetched = [
      source('/data/a.csv', 'file', file('', 'a,b')),
      source(
        '/app',
        'folder',
        { kind: 'folder', path: 'src' },
        file('src/run', 'x', 0o555),
        { kind: 'same', path: 'same', as: 'src/run', mode: 0o555 },
        {
          kind: 'link',
          path: 'l',
          target: 'src/run',
        },
      ),
      source('/none', 'folder'),
    ];
    await fillFilesRoot(root, { fetched, folders: ['/', '/out/plots'] });
    const mode = (path: string): number => statSync(join(root, path)).mode & 0o777;
    assert.equal(readFileSync(join(root, 'data/a.csv'), 'utf8'), 'a,b');
    assert.deepEqual(['data/a.csv', 'app/src/run', 'app/same'].map(mode), [0o444, 0o555, 0o555]);
    assert.equal(readlinkSync(join(root, 'app/l')), 'src/run');
    for (const folder of ['out/plots', 'none']) assert.ok(statSync(join(root, folder)).isDirectory());
  });

  it('fail the run when something cannot be at its path', async () => {
    const fetched = [source('/a', 'file', file('', 'x')), source('/a/b', 'file', file('', 'x'))];
    await assert.rejects(fillFilesRoot(root, { fetched, folders: [] }), RunFault);
    await assert.rejects(fillFilesRoot(root, { fetched: [], folders: ['/../x'] }), RunFault);
  });
});

const ended = () => endedFiles(base, ['run', 'files']);

const read = async (path: string): Promise<string | null> => {
  const found = await ended().open(path);
  return found && `${found.bytes} ${await text(found.content)}`;
};
const list = async (folder: string): Promise<string[]> => {
  const found: string[] = [];
  for await (const path of ended().list(folder)) found.push(path);
  return found;
};

describe('what a process leaves', () => {
  it('are regular files alone: links, what is behind them, further names of files, and pipes are missing', async () => {
    writeFileSync(join(base, 'host'), 'of the host');
    mkdirSync(join(root, 'out/deep'), { recursive: true });
    writeFileSync(join(root, 'out/deep/a'), 'abc');
    writeFileSync(join(root, 'out/b'), '');
    symlinkSync('deep/a', join(root, 'out/link'));
    symlinkSync('deep', join(root, 'out/folder'));
    symlinkSync(base, join(root, 'away'));
    linkSync(join(base, 'host'), join(root, 'out/second'));
    execFileSync('mkfifo', [join(root, 'out/fifo')]);
    assert.deepEqual(
      await Promise.all(
        [
          '/out/deep/a',
          '/out/b',
          '/out/link',
          '/out/folder/a',
          '/away/host',
          '/out',
          '/none',
          '/out/second',
          '/out/fifo',
        ].map(read),
      ),
      ['3 abc', '0 ', null, null, null, null, null, null, null],
    );
    assert.deepEqual(
      (await list('/out')).filter((name) => name !== 'second'),
      ['b', 'deep/a'],
    );
    assert.deepEqual([await list('/away'), await list('/none'), await list('/out/b')], [[], [], []]);
  });
});
