import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { ConcurrencyKeys } from '../../../src/runs/queue/concurrency-keys.js';
import { LaneRepository } from '../../../src/runs/queue/lane.repository.js';
import { QueueCleanupJob } from '../../../src/runs/queue/queue-cleanup.job.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import { createOn, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

describe('the clean-up of the queue', () => {
  const database = useTestDatabase();
  let journal: RunJournal;
  let job: QueueCleanupJob;

  beforeAll(() => {
    ({ journal } = journalOn(database.dataSource));
    const [keys, lanes] = [new ConcurrencyKeys(), new LaneRepository()];
    job = new QueueCleanupJob(database.dataSource, keys, lanes);
  });

  test('removes keys and lanes that no run uses, and keeps the others', async () => {
    const kept = {
      selector: ['kept'],
      requirementId: requirementIdOf({ tags: ['kept'], capabilities: [], gpuTags: [], gpus: null }),
    };
    await createOn(journal, { ...kept, concurrencyKey: 'kept', concurrencyLimit: 1 });
    await execute(database.dataSource, `insert into concurrency_keys values ('unused', 0)`);
    await execute(
      database.dataSource,
      `insert into lanes (id, required) values (gen_random_uuid(), '{tag:unused}')`,
    );
    assert.equal(await job.runOnce(), 2);
    assert.equal(await job.runOnce(), 0);
    const left = await rows<{ name: string }>(
      database.dataSource,
      `select required[1] as name from lanes union all select key from concurrency_keys order by name`,
    );
    assert.deepEqual(
      left.map(({ name }) => name),
      ['kept', 'tag:kept'],
    );
  });

  test('keeps the lane of a run that is entering the queue', async () => {
    const other = await database.open();
    const runner = other.createQueryRunner();
    const selector = ['entering'];
    const requirementId = requirementIdOf({ tags: selector, capabilities: [], gpuTags: [], gpus: null });
    const run = await createOn(journal, { selector, requirementId });
    await execute(database.dataSource, 'delete from queue where run_id = $1::uuid', [run.id]);
    try {
      await runner.startTransaction();
      await new LaneRepository().ensure(runner.manager, [run]);
      await job.runOnce();
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
    const found = await rows(database.dataSource, `select from lanes where required = '{tag:entering}'`);
    assert.equal(found.length, 1);
  });
});
