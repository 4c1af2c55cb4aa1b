import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Scope } from '../../../src/config/key-settings.js';
import type { CommandOptions } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { claimOf, createOn, eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const callerOf = (id: string, ...scopes: Scope[]): CommandOptions => ({
  caller: { id, scopes: new Set(scopes) },
});
const FLOOD = callerOf('flood', 'client');
const QUIET = callerOf('quiet', 'client');
const WORKER = callerOf('worker', 'worker');
const UNBOUND = { workerIds: null, workerTags: null, workerCapabilities: null, stores: null };

/** Three groups and more of small creations. */
const MANY = 800;

/** Beyond this size, a creation waits apart from the others. */
const LARGE = 100_000;

describe('a client that floods the journal', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  beforeAll(async () => {
    ({ journal } = journalOn(await database.open(2)));
  });

  /** Submits creations; counts those that are answered. */
  function flood(count: number, bytes: number): { readonly all: Promise<unknown>; answered: number } {
    const state = { all: Promise.resolve<unknown>(undefined), answered: 0 };
    const inputs = { text: 'x'.repeat(bytes) };
    const creations = Array.from({ length: count }, async () => {
      await journal.create(freshRun({ inputs }), FLOOD);
      state.answered += 1;
    });
    state.all = Promise.all(creations);
    return state;
  }

  test('does not delay the creation of another', async () => {
    const flooding = flood(MANY, 1_000);
    await journal.create(freshRun(), QUIET);
    assert.ok(flooding.answered <= 200, `${flooding.answered} of the flood were carried out before`);
    await flooding.all;
    assert.equal(flooding.answered, MANY);
  });

  test('does not delay a report or a claim of a worker, whatever the number of its keys', async () => {
    const { id } = await createOn(journal);
    let created = 0;
    const creations = Array.from({ length: MANY }, (_, i) =>
      journal.create(freshRun(), callerOf(`key ${i}`, 'client')).then(() => void (created += 1)),
    );
    const report = journal.change(id, eventCommand({ type: 'NOTE', msg: '' }), WORKER);
    const claim = journal.claim({ ...claimOf('w'), caller: { ...UNBOUND, id: 'worker' } });
    const earlier = await Promise.all([report, claim]).then(() => created);
    await Promise.all(creations);
    assert.ok(earlier <= 200, `${earlier} creations were carried out before`);
  });

  test('with large creations does not delay small ones, even while its commit is blocked', async () => {
    const idempotency = { scope: 'held by another transaction', requestHash: 'hash' };
    const holder = database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query(
      `insert into idempotency_keys (scope, request_hash, created_at) values ($1, 'hash', now())`,
      [idempotency.scope],
    );
    const inputs = { text: 'x'.repeat(LARGE) };
    let isDone = false;
    const large = journal
      .create(freshRun({ inputs }), { ...FLOOD, idempotency })
      .finally(() => (isDone = true));
    await journal.create(freshRun(), QUIET);
    await journal.create(freshRun(), FLOOD);
    assert.equal(isDone, false);
    await holder.rollbackTransaction();
    await holder.release();
    await large;
  });
});
