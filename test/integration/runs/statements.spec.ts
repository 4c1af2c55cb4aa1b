import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { EntityManager } from 'typeorm';
import {
  ConcurrencySlotEntity,
  ExecutionEntity,
  QueueEntryEntity,
  RunTimerEntity,
} from '../../../src/database/entities/queue.entity.js';
import {
  AttemptEntity,
  EventEntity,
  RunCountsEntity,
  RunEntity,
} from '../../../src/database/entities/run.entity.js';
import { FeedRepository } from '../../../src/feed/feed.repository.js';
import {
  addRunCounts,
  announceCommit,
  StateCountDelta,
} from '../../../src/runs/counts/run-counts.repository.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import { CHANGING_FIELDS, createRun, INITIAL_VALUES, NO_OPTIONS } from '../../../src/runs/machine/run.js';
import { FRESH, NEW_RUN } from '../../../src/runs/machine/decide.fixtures.js';
import { findEmptyLanes, listActiveLanes, listCandidates } from '../../../src/runs/queue/lane.repository.js';
import { lockKeys, readOpenRuns } from '../../../src/runs/storage/open-runs.js';
import { insertAttempts } from '../../../src/runs/storage/ended-attempts.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { putTimers, removeTimers } from '../../../src/runs/storage/run-timers.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { queueWith } from '../../support/runs/journal.js';

const NOW = new Date('2026-01-01T00:00:00.000Z');
const KEYED = { ...FRESH, concurrencyKey: 'k', concurrencyLimit: 1 };
const LIMITED = createRun({ ...NEW_RUN, concurrencyOnLimit: 'skip' }, NOW);
const NO_EXECUTIONS = { ended: new Map<string, string>(), begun: [] };

/** Sends what create, claim, event and end send, with and without options. */
async function sendAll(manager: EntityManager): Promise<void> {
  const runs = new RunRepository();
  await runs.insert(manager, [], true);
  await runs.insert(manager, [], false);
  await runs.insert(manager, [LIMITED], false);
  await lockKeys(manager, [], [], false);
  await readOpenRuns(manager, [], 0);
  await runs.find(manager, []);
  await runs.find(manager, [], { readsLabels: true });
  await runs.lock(manager, []);
  await runs.listHeldBy(manager, [], [], 1);
  await runs.assign(manager, [], new Map());
  await runs.label(manager, []);
  for (const field of CHANGING_FIELDS) {
    await runs.update(manager, [], new Map(), new Set([field]), { ...NO_EXECUTIONS, begun: [FRESH.id] });
  }
  await insertAttempts(manager, []);
  await putTimers(manager, []);
  await removeTimers(manager, []);
  await new EventRepository().append(manager, []);
  await new FeedRepository({ feedEnabled: true }).append(manager, []);
  const counts = new StateCountDelta();
  counts.create(1);
  await addRunCounts(manager, counts, NOW);
  await announceCommit(manager, counts, NOW, {});
  const queue = queueWith();
  await queue.put(manager, []);
  await queue.put(manager, [KEYED]);
  for (const isLocked of [true, false]) {
    await queue.readFirst(manager, 1, isLocked);
    await queue.readAll(manager, [FRESH], isLocked);
  }
  await queue.isPlainEmpty(manager);
  await queue.remove(manager, []);
  await queue.reserve(manager, []);
  await queue.notePassedOver(manager, [], NOW);
  await queue.lockWorkers(manager, []);
  await queue.keys.add(manager, new Map());
  await queue.keys.admit(manager, []);
  await queue.keys.holdSlots(manager, []);
  await listCandidates(manager, [], [], { limit: 1 }, []);
  await listCandidates(manager, [], [], { limit: 1, passedOverBefore: NOW }, []);
  await listActiveLanes(manager);
  await findEmptyLanes(manager, []);
}

/** The columns that the insertions into a table name, those of each insertion. */
function insertedInto(table: string, statements: readonly string[]): string[][] {
  return statements.flatMap((sql) =>
    [...sql.matchAll(new RegExp(`insert into ${table}(?: as \\w+)? \\(([^)]*)\\)`, 'g'))].map(
      ([, names = '']) => [...names.matchAll(/\w+/g)].map(([name]) => name),
    ),
  );
}

describe('the statements of create, claim, event and end', () => {
  const database = useTestDatabase();
  const statements: string[] = [];

  beforeAll(async () => {
    const runner = database.dataSource.createQueryRunner();
    runner.query = async (sql: string) => {
      statements.push(sql);
      return { records: [], affected: 0, raw: [] };
    };
    try {
      await sendAll(runner.manager);
    } finally {
      await runner.release();
    }
  });

  test('are accepted by the database as they are sent', async () => {
    assert.ok(statements.length > 50);
    for (const sql of new Set(statements)) {
      await database.dataSource.query(`prepare written as ${sql}`);
      await database.dataSource.query('deallocate written');
    }
  });

  /** Columns that must be written: those that are not left out, and those that are neither null nor filled in by default. */
  const columnsOf = (entity: new () => object, leftOut: readonly string[]): string[] =>
    database.dataSource
      .getMetadata(entity)
      .columns.filter(({ propertyName, isNullable, isGenerated, default: given }) => {
        const isRequired = !isNullable && !isGenerated && given === undefined;
        return isRequired || !leftOut.includes(propertyName);
      })
      .map(({ databaseName }) => databaseName);

  const SAME = [...Object.keys(INITIAL_VALUES), 'outcome', 'endedWorker'];
  for (const [rows, table, entity, leftOut] of [
    ['a run', 'runs', RunEntity, SAME],
    ['a claimable run', 'queue', QueueEntryEntity, ['passedOverAt', 'reservedFor', 'isPaused']],
    ['an execution', 'executions', ExecutionEntity, []],
    ['an event', 'events', EventEntity, []],
    ['an ended attempt', 'attempts', AttemptEntity, []],
    ['a timer', 'run_timers', RunTimerEntity, []],
    ['the counts', 'run_counts', RunCountsEntity, []],
    ['a slot', 'concurrency_slots', ConcurrencySlotEntity, ['id', 'isKilled']],
  ] as const) {
    test(`write every column of ${rows} that is not the same in all new rows`, () => {
      const [longest = []] = insertedInto(table, statements).toSorted((a, b) => b.length - a.length);
      const missing = columnsOf(entity, leftOut).filter((column) => !longest.includes(column));
      assert.deepEqual(missing, []);
    });
  }

  test('write every column of a run without options that is no option and not the same in all new rows', () => {
    const [queued = []] = insertedInto(
      'runs',
      statements.filter((sql) => sql.includes('insert into queue')),
    );
    const leftOut = [...SAME, ...Object.keys(NO_OPTIONS), 'notBefore'];
    const missing = columnsOf(RunEntity, leftOut).filter((column) => !queued.includes(column));
    assert.deepEqual(missing, []);
  });
});
