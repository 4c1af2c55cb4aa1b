import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { rows } from '../../../src/database/sql/sql.js';
import type { Claim } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { MANUAL_RETRY, userCancel } from '../../../src/runs/machine/run-event.js';
import { LowWaterMarks } from '../../../src/runs/queue/low-water-marks.js';
import { RunNotFound, RunRejected } from '../../../src/runs/run.errors.js';
import { claimOf, claimOn, createOn, eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NOTE = eventCommand({ type: 'NOTE', msg: 'n' });
const forced = { type: 'event', event: MANUAL_RETRY, reporter: {} } as const;

/** A claim with a key of the worker's own. */
function keyed(worker: string): Claim {
  return { ...claimOf(worker), idempotency: { scope: `claim of ${worker}`, requestHash: 'hash' } };
}

/** A journal that believes that no other process serves, or that others do. */
function journalBeside(source: DataSource, isAlone: boolean): RunJournal {
  const marks = new LowWaterMarks({ subscribe: () => () => undefined, isListening: true, isAlone });
  marks.onModuleInit();
  return journalOn(source, {}, undefined, marks).journal;
}

describe('the journal', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  beforeEach(async () => {
    await database.dataSource.query(
      'truncate runs, dependencies, attempts, events, queue, feed_entries, feed_topics',
    );
    ({ journal } = journalOn(database.dataSource));
  });

  const query = <T>(sql: string, params: unknown[] = []): Promise<T[]> =>
    rows<T>(database.dataSource, sql, params);

  for (const [who, isAlone] of [
    ['two processes', false],
    ['two processes, of which each believes to be the only one,', true],
  ] as const)
    test(`${who} on one database hand each of 200 runs out once`, async () => {
      const one = journalBeside(database.dataSource, isAlone);
      const other = journalBeside(await database.open(), isAlone);
      await Promise.all(Array.from({ length: 200 }, () => createOn(journal)));
      const handed: string[] = [];
      const worker = async (name: string, at: RunJournal): Promise<void> => {
        for (;;) {
          const { kind, runs } = await at.claim(claimOf(name));
          if (kind === 'empty') return;
          handed.push(...runs.map(({ run }) => run.id));
        }
      };
      await Promise.all(Array.from({ length: 30 }, (_, i) => worker(`worker-${i}`, i % 2 ? one : other)));
      assert.equal(handed.length, 200);
      assert.equal(new Set(handed).size, 200);
      const perWorker = await query<{ n: number }>(
        `select count(*)::integer as n from runs where state = 'ASSIGNED' and worker_id is not null`,
      );
      assert.deepEqual(perWorker, [{ n: 200 }]);
    });

  test('answers a repeated claim with the runs of its own worker only', async () => {
    const { id } = await createOn(journal);
    assert.equal((await journal.claim(keyed('before'))).runs.length, 1);
    await journal.change(id, forced);
    assert.equal((await journal.claim(keyed('now'))).runs.length, 1);
    const [old, now] = await Promise.all([journal.claim(keyed('before')), journal.claim(keyed('now'))]);
    assert.deepEqual([old.kind, old.runs.length], ['replayed', 0]);
    assert.deepEqual(
      now.runs.map(({ run }) => run.id),
      [id],
    );
  });

  for (const isAlone of [false, true])
    test(`skips runs that ${isAlone ? 'somebody in SQL' : 'another process'} has locked and takes the next ones`, async () => {
      journal = journalBeside(database.dataSource, isAlone);
      const held = await createOn(journal, { priority: 9 });
      const free = await createOn(journal);
      const other = database.dataSource.createQueryRunner();
      await other.startTransaction();
      await other.query('select 1 from runs where id = $1 for update', [held.id]);
      const claimed = await claimOn(journal, 'w');
      assert.deepEqual(
        claimed.map(({ run }) => run.id),
        [free.id],
      );
      await other.rollbackTransaction();
      await other.release();
      assert.deepEqual(
        (await claimOn(journal, 'w')).map(({ run }) => run.id),
        [held.id],
      );
    });

  test('commits concurrent commands in one transaction, and each gets its own answer', async () => {
    const { journal: grouped, registry } = journalOn(database.dataSource);
    const { id } = await createOn(grouped);
    const locked = await createOn(grouped);
    await grouped.change(locked.id, {
      ...forced,
      event: userCancel(),
    });
    const groups = await groupCount(registry);
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 50 }, () => grouped.change(id, NOTE)),
      grouped.change(locked.id, NOTE),
      grouped.change('00000000-0000-7000-8000-000000000000', NOTE),
    ]);
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 50);
    const refused = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
    );
    assert.ok(refused[0] instanceof RunRejected);
    assert.ok(refused[1] instanceof RunNotFound);
    assert.equal((await groupCount(registry)) - groups, 1);
    assert.deepEqual(
      await query('select index from events where run_id = $1 order by index', [id]),
      Array.from({ length: 50 }, (_, index) => ({ index })),
    );
  });

  test('commits the other commands of a group when one fails', async () => {
    const { id } = await createOn(journal);
    const poison = freshRun({ image: 'nul\0' });
    const outcomes = await Promise.allSettled([
      journal.change(id, NOTE),
      journal.create(poison),
      journal.change(id, NOTE),
      createOn(journal),
    ]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    );
    assert.deepEqual(await query('select count(*)::integer as n from runs'), [{ n: 2 }]);
    assert.deepEqual(await query('select count(*)::integer as n from events where run_id = $1', [id]), [
      { n: 2 },
    ]);
  });

  test('commits the other commands of a group while the run of one is locked', async () => {
    const held = await createOn(journal);
    const free = await createOn(journal);
    const other = database.dataSource.createQueryRunner();
    await other.startTransaction();
    await other.query('select 1 from runs where id = $1 for update', [held.id]);
    const outcomes = await Promise.allSettled([
      journal.change(held.id, NOTE),
      journal.change(free.id, NOTE),
      journal.create(freshRun()),
    ]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'fulfilled', 'fulfilled'],
    );
    await other.rollbackTransaction();
    await other.release();
    await journal.change(held.id, NOTE);
    assert.deepEqual(await query('select event_count as n from runs where id = $1', [held.id]), [{ n: 1 }]);
  });

  test('commits large commands in groups of bounded size, for any text', async () => {
    const { journal: grouped, registry } = journalOn(database.dataSource);
    const inputs = { quotes: '"\\'.repeat(200_000), words: 'NULL,{}' };
    const created = await Promise.all(Array.from({ length: 40 }, () => createOn(grouped, { inputs })));
    assert.ok((await groupCount(registry)) >= 4, 'several groups');
    const [row] = await query<{ inputs: object }>('select inputs from runs where id = $1', [created[7]?.id]);
    assert.deepEqual(row?.inputs, inputs);
  });

  test('keeps the outputs of an ended attempt and starts the next one from the template', async () => {
    const { id } = await createOn(journal, { outputsTemplate: { url: 'u' } });
    await claimOn(journal, 'w');
    await journal.change(id, eventCommand({ type: 'COMPLETED', msg: '', payload: { outputs: { n: 1 } } }));
    await journal.change(id, forced);
    await claimOn(journal, 'w');
    // Both in one group: the outputs of the ended attempt are not in its row yet.
    await Promise.all([
      journal.change(id, eventCommand({ type: 'COMPLETED', msg: '', payload: { outputs: { n: 2 } } })),
      journal.change(id, forced),
    ]);
    assert.deepEqual(
      await query('select attempt, state, outputs from attempts where run_id = $1 order by 1', [id]),
      [
        { attempt: 1, state: 'COMPLETED', outputs: { n: 1 } },
        { attempt: 2, state: 'COMPLETED', outputs: { n: 2 } },
      ],
    );
    assert.deepEqual(await query('select state, attempt, outputs from runs where id = $1', [id]), [
      { state: 'PENDING', attempt: 3, outputs: null },
    ]);
    assert.deepEqual(await query('select count(*)::integer as n from queue'), [{ n: 1 }]);
  });
});

async function groupCount(registry: { metrics(): Promise<string> }): Promise<number> {
  const line = (await registry.metrics())
    .split('\n')
    .find((text) => text.startsWith('longshore_journal_group_size_count'));
  return Number(line?.split(' ')[1] ?? 0);
}
