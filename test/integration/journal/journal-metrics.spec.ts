import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Registry } from 'prom-client';
import type { Scope } from '../../../src/config/key-settings.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { TooManyWaiting } from '../../../src/runs/run.errors.js';
import { changeOn, createOn, eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NOTE = eventCommand({ type: 'NOTE', msg: 'n' });

const COUNTED = [
  'longshore_runs_created_total',
  'longshore_events_total',
  'longshore_feed_entries_total',
  'longshore_run_transitions_total',
  'longshore_refused_events_total',
  'longshore_journal_rollbacks_total',
  'longshore_journal_group_size_count',
  'longshore_journal_group_size_sum',
  'longshore_journal_refused_commands_total',
];

describe('the metrics of the journal', () => {
  const database = useTestDatabase();
  let journal: RunJournal;
  let registry: Registry;

  beforeAll(() => {
    ({ journal, registry } = journalOn(database.dataSource));
  });

  const scrape = async (): Promise<Scrape> => new Scrape(await registry.metrics());

  const counting = async (work: () => Promise<unknown>): Promise<Record<string, number>> => {
    const earlier = await scrape();
    await work();
    return (await scrape()).since(earlier, COUNTED);
  };

  test('count committed commands once when a group is rolled back and its commands are committed one by one', async () => {
    const { id } = await createOn(journal, { topic: 't' });
    const grown = await counting(() =>
      Promise.allSettled([
        createOn(journal),
        journal.create(freshRun({ image: 'nul\0' })),
        changeOn(journal, id, NOTE),
      ]),
    );
    assert.deepEqual(grown, {
      longshore_runs_created_total: 1,
      'longshore_events_total{type="custom"}': 1,
      longshore_feed_entries_total: 1,
      // The group, and the failing command alone.
      longshore_journal_rollbacks_total: 2,
      longshore_journal_group_size_count: 2,
      longshore_journal_group_size_sum: 2,
    });
  });

  test('do not count a command that is rejected in a committed group', async () => {
    const { id } = await createOn(journal);
    const started = eventCommand({ type: 'STARTED', msg: '', payload: { worker_id: 'w' } });
    const grown = await counting(() =>
      Promise.allSettled([changeOn(journal, id, NOTE), changeOn(journal, id, started)]),
    );
    assert.deepEqual(grown, {
      'longshore_events_total{type="custom"}': 1,
      'longshore_refused_events_total{reason="not-in-execution",reporter="client"}': 1,
      longshore_journal_group_size_count: 1,
      longshore_journal_group_size_sum: 2,
    });
  });

  test('show waiting commands and commands refused because too many wait', async () => {
    const caller = { id: 'key', scopes: new Set<Scope>(['client']) };
    const inputs = { text: 'x'.repeat(8 * 1024 * 1024) };
    const grown = await counting(async () => {
      const creations = Array.from({ length: 12 }, () => journal.create(freshRun({ inputs }), { caller }));
      const now = await scrape();
      assert.ok((now.value('longshore_journal_waiting_commands') ?? 0) > 0);
      assert.ok((now.value('longshore_journal_waiting_bytes') ?? 0) > 8 * 1024 * 1024);
      const outcomes = await Promise.allSettled(creations);
      const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
      assert.ok(refused.length > 0 && refused.every(({ reason }) => reason instanceof TooManyWaiting));
      const later = await scrape();
      assert.equal(
        later.value('longshore_journal_refused_commands_total', { reason: 'share' }),
        refused.length,
      );
      assert.equal(later.value('longshore_journal_waiting_commands'), 0);
      assert.equal(later.value('longshore_journal_waiting_bytes'), 0);
    });
    assert.equal(
      (grown['longshore_runs_created_total'] ?? 0) +
        (grown['longshore_journal_refused_commands_total{reason="share"}'] ?? 0),
      12,
    );
  });
});
