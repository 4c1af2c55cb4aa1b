import assert from 'node:assert/strict';
import {
  appendFileSync,
  createReadStream,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { QUICK_CLOCK, SILENT_CLOCK } from '../testing/quick-clocks.js';
import { RunFault, type EndedFiles } from '../runtime/runtime.js';
import type { ArtifactTarget, Upload, UploadRequest } from '../service-api/run-artifacts.js';
import { FileServer, sha256 } from '../testing/file-server.js';
import { collect, type Collected, type CollectParts } from './collect.js';

let store: FileServer;
let asked: UploadRequest[] = [];
let notes: string[] = [];
let partBytes = Infinity;

beforeEach(async () => {
  store = await FileServer.start();
  [asked, notes, partBytes] = [[], [], Infinity];
});
afterEach(() => store.close());

function uploadOf(name: string, bytes: number | undefined, firstPart = 1): Upload {
  const request = (part: string) => ({
    method: 'PUT',
    url: store.urlOf(`/${name}${part}?try=${asked.length}`.replace('?', '%3F')),
    headers: { 'x-signed': 'yes' },
  });
  if (bytes === undefined || bytes <= partBytes) return { kind: 'whole', request: request('') };
  const count = Math.ceil(bytes / partBytes);
  const sizes = Array.from({ length: count }, (_, index) => Math.min(partBytes, bytes - index * partBytes));
  const signed = sizes.map((size, index) => ({ ...request(`.${index + 1}`), bytes: size }));
  return { kind: 'parts', parts: signed.slice(firstPart - 1) };
}

const parts: CollectParts = {
  clock: QUICK_CLOCK,
  random: () => 0,
  log: { clock: SILENT_CLOCK, note: (text) => void notes.push(text) },
  getUploads: async (request) => {
    const { names, bytes, first_part: firstPart } = request;
    asked.push(request);
    return Object.fromEntries(names.map((name) => [name, uploadOf(name, bytes, firstPart)]));
  },
};

function collectAll(
  out: Record<string, Partial<ArtifactTarget> & { path: string }>,
  contents: Record<string, string | Buffer>,
  hasSucceeded = true,
): Promise<Collected> {
  const files: EndedFiles = {
    open: async (path) => {
      const { [path]: content } = contents;
      if (content === undefined) return null;
      const bytes = Buffer.from(content);
      const chunks = Array.from({ length: Math.ceil(bytes.length / 60_000) }, (_, index) =>
        bytes.subarray(index * 60_000, (index + 1) * 60_000),
      );
      return { bytes: bytes.length, content: Readable.from(chunks) };
    },
    list: async function* (folder) {
      for (const path of Object.keys(contents))
        if (path.startsWith(`${folder}/`)) yield path.slice(folder.length + 1);
    },
  };
  const targets = Object.entries(out).map(
    ([name, target]) => [name, { isRequired: true, isAlways: false, ...target }] as const,
  );
  return collect(Object.fromEntries(targets), hasSucceeded, files, parts, new AbortController().signal);
}

/** Contents of the store by names, without the marks of URLs. */
const objects = (): Record<string, string> =>
  Object.fromEntries(
    [...store.objects].map(([path, content]) => [path.replace(/%3F.*/, ''), content.toString()]),
  );

const named = (names: readonly string[]) => Object.fromEntries(names.map((name) => [`/out/${name}`, 'x']));

describe('what a run leaves', () => {
  it('is stored under its name, with size, checksum and type, and a line of the log', async () => {
    const { stored, missing } = await collectAll(
      { model: { path: '/out/model.json' }, plots: { path: '/out/plots/*.png' } },
      { '/out/model.json': '{}', '/out/plots/a.png': 'a', '/out/plots/b.png': '', '/out/plots/c.txt': 'c' },
    );
    assert.deepEqual(missing, []);
    assert.deepEqual(stored, [
      {
        name: 'model',
        path: '/out/model.json',
        bytes: 2,
        contentType: 'application/json',
        sha256: sha256('{}'),
      },
      {
        name: 'plots/a.png',
        path: '/out/plots/a.png',
        bytes: 1,
        contentType: 'image/png',
        sha256: sha256('a'),
      },
      {
        name: 'plots/b.png',
        path: '/out/plots/b.png',
        bytes: 0,
        contentType: 'image/png',
        sha256: sha256(''),
      },
    ]);
    assert.deepEqual(objects(), { '/model': '{}', '/plots/a.png': 'a', '/plots/b.png': '' });
    assert.ok(store.requests.every(({ headers }) => headers['x-signed'] === 'yes'));
    assert.match(notes.toSorted()[0] ?? '', /^stored model \(\/out\/model.json\): 2 bytes in \d+\.\d s$/);
    assert.ok(!notes.join().includes('signature'));
    assert.deepEqual(
      asked.map(({ names }) => names),
      [['model', 'plots/a.png', 'plots/b.png']],
    );
  });

  it('is missing where it is required and not there', async () => {
    const { stored, missing } = await collectAll(
      {
        a: { path: '/a' },
        b: { path: '/b', isRequired: false },
        c: { path: '/c/*', isRequired: true },
        d: { path: '/d/*', isRequired: false },
      },
      {},
    );
    assert.deepEqual([stored, missing.toSorted()], [[], ["'/a' (a)", "'/c/*' (c)"]]);
  });

  it('is, after a failure, what is kept after each end', async () => {
    const out = { log: { path: '/log', isAlways: true }, model: { path: '/model' } };
    const { stored, missing } = await collectAll(out, { '/log': 'l', '/model': 'm' }, false);
    assert.deepEqual([stored.map(({ name }) => name), missing], [['log'], []]);
  });

  it('is tried five times, each with a new URL', async () => {
    let tries = 0;
    store.onRequest = () => {
      tries += 1;
      return tries === 1 ? { breakAfter: 0 } : tries <= 4 ? { status: 503 } : undefined;
    };
    const content = 'x'.repeat(200_000);
    const { stored } = await collectAll({ a: { path: '/a' } }, { '/a': content });
    assert.equal(stored[0]?.sha256, sha256(content));
    assert.equal(new Set(store.requests.map(({ url }) => url)).size, 5);
    store.onRequest = () => ({ status: 503 });
    await assert.rejects(collectAll({ a: { path: '/a' } }, { '/a': 'a' }), {
      name: 'Error',
      message: "The artifact 'a' could not be stored: the store answers HTTP 503 (Fault)",
    });
  });

  it('goes in the parts that the service asks for, of which only those are repeated that broke', async () => {
    partBytes = 4_000_000;
    const content = Buffer.from(Array.from({ length: 9_000_000 }, (_, index) => index % 251));
    let count = 0;
    store.onRequest = () => ((count += 1) === 2 ? { status: 500 } : undefined);
    const { stored } = await collectAll({ big: { path: '/big.bin' } }, { '/big.bin': content });
    const pieces = [
      content.subarray(0, 4_000_000),
      content.subarray(4_000_000, 8_000_000),
      content.subarray(8_000_000),
    ];
    assert.deepEqual(asked.slice(1), [
      { names: ['big'], bytes: 9_000_000 },
      { names: ['big'], bytes: 9_000_000, first_part: 2 },
    ]);
    assert.deepEqual(stored, [
      {
        name: 'big',
        path: '/big.bin',
        bytes: 9_000_000,
        contentType: 'application/octet-stream',
        sha256: sha256(content),
        etags: pieces.map((piece) => `"${sha256(piece).slice(0, 8)}"`),
      },
    ]);
    assert.equal(store.requests.length, 4);
  });

  it('goes in parts whose URLs expire before all are sent, and not in parts of other sizes', async () => {
    partBytes = 2_000_000;
    const content = Buffer.alloc(6_000_000, 'each part differs');
    let [newest, left] = [0, 1];
    store.onRequest = () => {
      if (asked.length > newest) [newest, left] = [asked.length, 1];
      left -= 1;
      return left < 0 ? { status: 403 } : undefined;
    };
    const { stored } = await collectAll({ big: { path: '/big' } }, { '/big': content });
    assert.deepEqual(
      [stored[0]?.sha256, stored[0]?.etags?.length, asked.map(({ first_part: part }) => part)],
      [sha256(content), 3, [undefined, undefined, 2, 3]],
    );
    store.onRequest = () => {
      partBytes = 4_000_000;
      return { status: 403 };
    };
    await assert.rejects(
      collectAll({ big: { path: '/big' } }, { '/big': content }),
      /its parts have changed/,
    );
  });

  it('is what a growing file had when it was opened, and nothing of one that has become shorter', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collect-'));
    const path = join(folder, 'log');
    const collectIt = (change: () => void): Promise<Collected> => {
      writeFileSync(path, 'x'.repeat(3_000_000));
      const files: EndedFiles = {
        open: async () => {
          const bytes = statSync(path).size;
          change();
          return { bytes, content: createReadStream(path, { fd: openSync(path, 'r') }) };
        },
        async *list() {},
      };
      const out = { log: { path: '/log', isRequired: true, isAlways: false } };
      return collect(out, true, files, parts, new AbortController().signal);
    };
    try {
      const { stored } = await collectIt(() => appendFileSync(path, 'y'.repeat(1_000_000)));
      assert.deepEqual([stored[0]?.bytes, stored[0]?.sha256], [3_000_000, sha256('x'.repeat(3_000_000))]);
      assert.deepEqual(Object.values(objects()), ['x'.repeat(3_000_000)]);
      store.objects.clear();
      await assert.rejects(
        collectIt(() => truncateSync(path, 1_000)),
        /the file has (become shorter|changed)/,
      );
      assert.deepEqual(objects(), {});
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('may be 1,000 files of a run, with paths of 512 bytes without control characters', async () => {
    const refused = async (names: readonly string[], message: RegExp): Promise<void> =>
      assert.rejects(collectAll({ all: { path: '/out/**' } }, named(names)), (error: Error) => {
        assert.ok(error instanceof RunFault);
        return message.test(error.message);
      });
    await refused(
      Array.from({ length: 1001 }, (_, index) => `${index}`),
      /more than 1000 files/,
    );
    await refused([`d/${'ü'.repeat(256)}`], /path of more than 512 bytes/);
    await refused(['a\nb'], /control characters/);
    const { stored } = await collectAll(
      { all: { path: '/out/**' } },
      named(Array.from({ length: 150 }, (_, i) => `${i}`)),
    );
    assert.deepEqual([stored.length, asked.at(-1)?.names.length], [150, 50]);
  });
});
