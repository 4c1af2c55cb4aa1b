import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { event, NEW_RUN } from '../machine/decide.fixtures.js';
import type { NewRun } from '../machine/run.js';
import { bytesOf, type BatchLedger, type PendingCommand } from './command.js';

/** Without texts that count. */
const FRESH: NewRun = { ...NEW_RUN, image: '', topic: null };

const LEDGER: BatchLedger = {
  lock: () => Promise.resolve(new Set()),
  write: () => Promise.resolve(),
};

const creation = (given: Partial<NewRun>): PendingCommand => ({
  kind: 'create',
  fresh: { ...FRESH, ...given },
});
const change = (command: Extract<PendingCommand, { kind: 'change' }>['command']): PendingCommand => ({
  kind: 'change',
  runId: 'run',
  command,
});

describe('the bytes of a command', () => {
  const text = 'x'.repeat(1000);
  const cases: Readonly<Record<string, PendingCommand>> = {
    'the inputs of a new run': creation({ inputs: { text } }),
    'the template of its outputs': creation({ outputsTemplate: { text } }),
    'its attributes': creation({ attributes: { text } }),
    'its image': creation({ image: text }),
    'its topic': creation({ topic: text }),
    'the message of an event': change(event({ type: 'NOTE', msg: text })),
    'the payload of an event': change(event({ type: 'NOTE', msg: '', payload: { text } })),
    'the new runs of a batch': {
      kind: 'batch',
      batch: { ledger: LEDGER, record: {}, creations: [{ fresh: { ...FRESH, inputs: { text } } }] },
      caller: { id: 'key', scopes: new Set(['client']) },
    },
    'each change of a batch, whose size makes it a large request': {
      kind: 'batch',
      batch: {
        ledger: LEDGER,
        record: {},
        changes: [{ runId: 'run', command: { type: 'patch', keyName: null, priority: 1 } }],
      },
      caller: { id: 'key', scopes: new Set(['client']) },
    },
    'the outputs that a patch sets': change({ type: 'patch', keyName: 'admin', outputs: { text } }),
  };

  for (const [what, pending] of Object.entries(cases)) {
    test(`count ${what}`, () => {
      const bytes = bytesOf(pending);
      assert.ok(bytes >= 1000 && bytes < 1100, `${bytes} bytes`);
    });
  }
});
