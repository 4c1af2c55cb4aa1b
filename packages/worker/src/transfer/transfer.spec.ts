import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { RunFault } from '../runtime/runtime.js';
import { FileServer, sha256 } from '../testing/file-server.js';
import { QUICK_CLOCK } from '../testing/quick-clocks.js';
import {
  formatLine,
  packMessage,
  parseLine,
  TRANSFER_FILES,
  type TransferAnswer,
  type TransferLine,
  type TransferSources,
} from './messages.js';
import { SIGN_MS, transferIn, transferOut, type TransferParts } from './transfer.js';

const NEVER = new AbortController().signal;
const ENDED: TransferAnswer = { hasSucceeded: true, id: 0, uploads: {}, isOver: false };

let base: string;
let store: FileServer;
let said: TransferLine[];
let parts: TransferParts;

beforeEach(async () => {
  base = mkdtempSync(join(tmpdir(), 'longshore-transfer-'));
  store = await FileServer.start();
  for (const name of ['told', 'root', 'staging']) mkdirSync(join(base, name));
  said = [];
  parts = {
    folder: join(base, 'told'),
    root: join(base, 'root'),
    clock: QUICK_CLOCK,
    random: () => 0,
    // As the launcher reads it.
    say: (line) => void said.push(parseLine(formatLine(line)) ?? line),
  };
});
afterEach(async () => {
  await store.close();
  rmSync(base, { recursive: true });
});

function tell(name: keyof typeof TRANSFER_FILES, message: Parameters<typeof packMessage>[0]): void {
  writeFileSync(join(parts.folder, TRANSFER_FILES[name]), packMessage(message));
}

function sourceOf(content: string): TransferSources['in'][string] {
  store.objects.set('/source', Buffer.from(content));
  const get = { url: store.urlOf('/source'), bytes: content.length, sha256: null };
  return { get, url: null, sha256: null, isUnpacked: false };
}

const sources = (more: Partial<TransferSources>) => ({
  in: {},
  folders: [],
  networks: null,
  atMs: 0,
  ...more,
});
const fetchAll = () => transferIn(parts, join(base, 'staging'), NEVER);

/** Answers each question by URLs of the store. */
function answerAll(): void {
  const { say } = parts;
  parts = {
    ...parts,
    say: (line) => {
      say(line);
      if (line.kind !== 'ask') return;
      const uploads = Object.fromEntries(
        line.request.names.map((name) => {
          const request = { method: 'PUT', url: store.urlOf(`/${name}`), headers: {} };
          return [name, { kind: 'whole', request }] as const;
        }),
      );
      tell('answer', { ...ENDED, id: line.id, uploads });
    },
  };
}

describe('the helper of a pod', () => {
  it('fetches files to their paths, which nobody changes, and makes the folders of what the run leaves', async () => {
    tell('sources', sources({ in: { '/data/in.csv': sourceOf('a,b\n') }, folders: ['/out/plots'] }));
    await fetchAll();
    assert.equal(readFileSync(join(parts.root, 'data/in.csv'), 'utf8'), 'a,b\n');
    assert.equal(statSync(join(parts.root, 'data/in.csv')).mode & 0o777, 0o444);
    assert.ok(statSync(join(parts.root, 'out/plots')).isDirectory());
    const note = said.at(-1);
    assert.match(note?.kind === 'note' ? note.text : '', /^fetched \/data\/in\.csv: 4 bytes in/);
  });

  it('fails for what no machine could fetch as a fault of the run, with the path and without the URL', async () => {
    tell('sources', sources({ in: { '/data/in.csv': { ...sourceOf('a'), sha256: '0'.repeat(64) } } }));
    await assert.rejects(fetchAll(), (error: Error) => {
      assert.ok(error instanceof RunFault);
      assert.match(error.message, /^The file for '\/data\/in\.csv' cannot be fetched: its checksum is/);
      return !error.message.includes('signature');
    });
  });

  it('waits for the end of the program, asks where its files go, and tells what is stored', async () => {
    answerAll();
    tell('targets', { out: { model: { path: '/out/m', isRequired: true, isAlways: false } } });
    const over = transferOut(parts, NEVER);
    mkdirSync(join(parts.root, 'out'));
    writeFileSync(join(parts.root, 'out/m'), 'model');
    tell('answer', ENDED);
    await over;
    assert.deepEqual(
      said.filter(({ kind }) => kind !== 'note'),
      [
        { kind: 'ask', id: 1, request: { names: ['model'] } },
        {
          kind: 'stored',
          artifact: {
            name: 'model',
            path: '/out/m',
            bytes: 5,
            sha256: sha256('model'),
            contentType: 'application/octet-stream',
          },
        },
        { kind: 'end', missing: [] },
      ],
    );
    assert.equal(String(store.objects.get('/model')), 'model');
  });

  it('stores after a failure what is always kept, and follows no link', async () => {
    answerAll();
    mkdirSync(join(parts.root, 'out'));
    writeFileSync(join(parts.root, 'out/why'), 'w');
    symlinkSync('/etc', join(parts.root, 'folder'));
    const target = { isRequired: true, isAlways: true };
    tell('targets', {
      out: {
        why: { ...target, path: '/out/why' },
        passwd: { ...target, path: '/folder/passwd' },
        model: { ...target, path: '/out/m', isAlways: false },
      },
    });
    tell('answer', { ...ENDED, hasSucceeded: false });
    await transferOut(parts, NEVER);
    assert.deepEqual(said.at(-1), { kind: 'end', missing: ["'/folder/passwd' (passwd)"] });
    assert.deepEqual([...store.objects.keys()], ['/why']);
  });

  for (const [what, answer, message] of [
    ['the launcher answers no more', { ...ENDED, isOver: true }, 'the launcher takes no more questions'],
    ['the store takes nothing', ENDED, "The artifact 'model' could not be stored: HTTP 503: Fault"],
  ] as const) {
    it(`ends, and says why, when ${what}`, async () => {
      answerAll();
      store.onRequest = () => ({ status: 503 });
      tell('targets', { out: { model: { path: '/m', isRequired: true, isAlways: false } } });
      writeFileSync(join(parts.root, 'm'), 'model');
      tell('answer', answer);
      await transferOut(parts, NEVER);
      const fault = said.at(-1);
      assert.ok(fault?.kind === 'fault' && !fault.isRun, JSON.stringify(said));
      assert.ok(fault.message.startsWith(message.slice(0, 40)), fault.message);
    });
  }

  it('ends when no launcher gives a sign for a day', async () => {
    tell('targets', { out: { model: { path: '/m', isRequired: true, isAlways: false } } });
    tell('sources', sources({}));
    await transferOut({ ...parts, clock: jumping(SIGN_MS / 2) }, NEVER);
    const fault = said.at(-1);
    assert.equal(fault?.kind === 'fault' && fault.message, 'no launcher has answered for 24 hours');
  });
});

/** A clock that goes so far at each sleep. */
function jumping(stepMs: number): TransferParts['clock'] {
  let nowMs = 0;
  return {
    nowMs: () => nowMs,
    epochMs: () => nowMs,
    sleep: async () => {
      nowMs += stepMs;
    },
  };
}
