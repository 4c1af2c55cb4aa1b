import assert from 'node:assert/strict';
import { afterEach, beforeAll, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { rows } from '../../../src/database/sql/sql.js';
import type { OnLimit } from '../../../src/database/entities/run.entity.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { Run } from '../../../src/runs/machine/run.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { checkKeys } from '../../support/runs/concurrency-keys.js';
import {
  changeOn,
  claimOf,
  createOn,
  eventCommand,
  freshRun,
  journalOn,
  openJournal,
} from '../../support/runs/journal.js';

const PROCESSES = 2;
const LIMIT = 3;

const keyed = (key: string, onLimit: OnLimit) => ({
  concurrencyKey: key,
  concurrencyLimit: LIMIT,
  concurrencyOnLimit: onLimit,
  topic: key,
});

describe('several processes that create runs of one key with on_limit', () => {
  const database = useTestDatabase();
  let sources: DataSource[];
  let journals: RunJournal[];

  beforeAll(async () => {
    sources = await Promise.all(Array.from({ length: PROCESSES }, () => openJournal(database)));
    journals = sources.map((source) => journalOn(source).journal);
  });
  afterEach(() => checkKeys(database.dataSource));

  /** Each process creates so many runs, one after another in each of four requests at once. */
  const createAll = (given: ReturnType<typeof keyed>, each: number): Promise<Run[]> =>
    Promise.all(
      journals.flatMap((journal) =>
        Array.from({ length: 4 }, async () => {
          const created: Run[] = [];
          for (let n = 0; n < each; n += 1) created.push(await createOn(journal, given));
          return created;
        }),
      ),
    ).then((all) => all.flat());

  const inStates = async (key: string): Promise<Record<string, number>> => {
    const found = await rows<{ state: string; count: number }>(
      database.dataSource,
      `select state, count(*)::integer as count from runs where concurrency_key = $1 group by state`,
      [key],
    );
    return Object.fromEntries(found.map(({ state, count }) => [state, count]));
  };

  const openOf = (key: string): Promise<{ id: string }[]> =>
    rows(
      database.dataSource,
      `select id from runs where concurrency_key = $1 and outcome = 'OPEN' order by created_at, id`,
      [key],
    );

  const countDeadlocks = async (): Promise<number> => {
    const [found] = await rows<{ deadlocks: number }>(
      database.dataSource,
      `select deadlocks::integer from pg_stat_database where datname = current_database()`,
    );
    return found?.deadlocks ?? 0;
  };

  test('skip all but as many as the limit, exactly, each with one event in timeline and feed', async () => {
    const created = await createAll(keyed('skipped', 'skip'), 10);
    const total = 4 * PROCESSES * 10;
    assert.equal(created.length, total);
    assert.equal(created.filter(({ state }) => state === 'PENDING').length, LIMIT);
    assert.deepEqual(await inStates('skipped'), { PENDING: LIMIT, CANCELLED: total - LIMIT });
    const [found] = await rows<{ events: number; fed: number }>(
      database.dataSource,
      `select (select count(*)::integer from events e join runs r on r.id = e.run_id where r.topic = 'skipped') as events,
              (select count(*)::integer from feed_entries where topic = 'skipped') as fed`,
    );
    assert.deepEqual(found, { events: total - LIMIT, fed: total - LIMIT });
  });

  test('leave the newest as many as the limit by cancel_oldest, while workers execute and end runs, without a deadlock', async () => {
    const deadlocks = await countDeadlocks();
    const given = keyed('replaced', 'cancel_oldest');
    const over = new AbortController();
    const exceeded: number[] = [];
    const watching = (async () => {
      while (!over.signal.aborted) {
        const { length } = await openOf('replaced');
        if (length > LIMIT) exceeded.push(length);
      }
    })();
    const working = journals.map(async (journal, process) => {
      while (!over.signal.aborted) {
        for (const { run } of (await journal.claim({ ...claimOf(`w${process}`), max: 2 })).runs) {
          const ends = eventCommand({ type: 'COMPLETED', msg: '' });
          await changeOn(journal, run.id, ends).catch((error: Error) =>
            assert.equal(error.name, 'RunRejected'),
          );
        }
      }
    });
    const created = await createAll(given, 25);
    over.abort();
    await Promise.all([watching, ...working]);
    assert.deepEqual(exceeded, []);
    assert.ok(created.every(({ state }) => state === 'PENDING'));
    const { length: left } = await openOf('replaced');
    assert.ok(left <= LIMIT, `${left} are open`);
    assert.equal(await countDeadlocks(), deadlocks);
  });

  test('decide the creations of one group in order, those that the group itself has created included', async () => {
    const [journal] = journals;
    assert.ok(journal);
    const older = await createOn(journal, keyed('grouped', 'queue'));
    const fresh = Array.from({ length: 5 }, () => freshRun(keyed('grouped', 'cancel_oldest')));
    await Promise.all(fresh.map((run) => journal.create(run)));
    const left = (await openOf('grouped')).map(({ id }) => id);
    assert.deepEqual(
      left,
      fresh.slice(-LIMIT).map(({ id }) => id),
    );
    assert.deepEqual(await inStates('grouped'), { PENDING: LIMIT, CANCELLED: 3 });
    assert.ok(!left.includes(older.id));
  });
});
