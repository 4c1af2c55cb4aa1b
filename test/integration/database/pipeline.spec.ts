import assert from 'node:assert/strict';
import { afterAll, beforeAll, beforeEach, describe, test } from 'vitest';
import { QueryFailedError } from 'typeorm';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { Pipeline } from '../../../src/database/sql/pipeline.js';
import { rows } from '../../../src/database/sql/sql.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const INSERT = 'insert into pipelined (n) values ($1::integer) returning n';

async function failBeforeSending(): Promise<void> {
  await Promise.resolve();
  throw new TypeError('could not even be built');
}

describe('a pipelined transaction', () => {
  const database = useTestDatabase();
  let journal: JournalDataSource;

  beforeAll(async () => {
    await database.dataSource.query('create table pipelined (n integer primary key)');
    journal = new JournalDataSource(database.dataSource);
    await journal.onModuleInit();
  });
  beforeEach(() => database.dataSource.query('truncate pipelined'));
  afterAll(async () => {
    await journal.onApplicationShutdown();
  });

  const kept = async (): Promise<number[]> =>
    (await rows<{ n: number }>(database.dataSource, 'select n from pipelined order by n')).map(({ n }) => n);

  test('commits what was handed in without waiting, in order, and answers what its work answered', async () => {
    const answer = await Pipeline.transaction(journal.dataSource, async (_, pipeline) => {
      pipeline.also(pipeline.send(INSERT, [1]));
      pipeline.also(pipeline.send('update pipelined set n = n + 1'));
      const { rows: inserted } = await pipeline.send(INSERT, [1]);
      pipeline.also(pipeline.send('delete from pipelined where n = 2'));
      return inserted;
    });
    assert.deepEqual(answer, [{ n: 1 }]);
    assert.deepEqual(await kept(), [1]);
  });

  test('commits nothing when something handed in failed before a statement of it was sent', async () => {
    await assert.rejects(
      Pipeline.transaction(journal.dataSource, async (_, pipeline) => {
        await pipeline.send(INSERT, [1]);
        pipeline.also(failBeforeSending());
      }),
      { name: 'TypeError', message: 'could not even be built' },
    );
    assert.deepEqual(await kept(), []);
  });

  test('commits nothing when its work throws, and tells what it threw', async () => {
    await assert.rejects(
      Pipeline.transaction(journal.dataSource, async (_, pipeline) => {
        pipeline.also(pipeline.send(INSERT, [1]));
        await Promise.resolve();
        throw new RangeError('changed its mind');
      }),
      { name: 'RangeError' },
    );
    assert.deepEqual(await kept(), []);
  });

  test('commits nothing when any statement failed, and tells of the first that did', async () => {
    await assert.rejects(
      Pipeline.transaction(journal.dataSource, async (_, pipeline) => {
        pipeline.also(pipeline.send(INSERT, [1]));
        pipeline.also(pipeline.send(INSERT, [1]));
        await pipeline.send('select 1 / 0').catch(() => undefined);
      }),
      (error) => error instanceof QueryFailedError && /pipelined_pkey/.test(error.message),
    );
    assert.deepEqual(await kept(), []);
  });

  test('leaves its connection fit for the next transaction, whatever came of it', async () => {
    for (const text of ['select 1 / 0', 'no such statement']) {
      await assert.rejects(Pipeline.transaction(journal.dataSource, (_, pipeline) => pipeline.send(text)));
      await Pipeline.transaction(journal.dataSource, (_, pipeline) => pipeline.send(INSERT, [text.length]));
    }
    assert.deepEqual(await kept(), ['select 1 / 0'.length, 'no such statement'.length]);
  });

  test('fails when its connection is lost, and nothing of it is kept', async () => {
    await assert.rejects(
      Pipeline.transaction(journal.dataSource, async (_, pipeline) => {
        await pipeline.send(INSERT, [1]);
        await pipeline.send('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
        await pipeline.send(INSERT, [2]);
      }),
    );
    assert.deepEqual(await kept(), []);
    await Pipeline.transaction(journal.dataSource, (_, pipeline) => pipeline.send(INSERT, [3]));
    assert.deepEqual(await kept(), [3]);
  });
});
