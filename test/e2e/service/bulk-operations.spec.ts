import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { seedRuns } from '../../support/browser/browser-runs.js';
import { startService, until } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

/** Two of five have failed or were cancelled. */
const SEEDED = 7_500;
const RUNS = 3_000;

/* oxlint-disable-next-line typescript/no-explicit-any -- an entry as the API answers it */
type Json = any;

describe('a bulk operation of a service that is killed again and again', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await openTestDatabase();
    await seedRuns(database.dataSource, SEEDED);
  });
  afterAll(() => database.close());

  test('changes every run exactly once, counts it once, and leaves one entry in the audit log and nothing else', async () => {
    const processed = async (): Promise<number> => {
      const [row] = await rows<{ processed: number }>(
        database.dataSource,
        'select processed from bulk_operations',
      );
      return row?.processed ?? 0;
    };
    const before = await rows<{ id: string; attempt: number; state: string }>(
      database.dataSource,
      'select id, attempt, state from runs',
    );
    const env = { DATABASE_URL: database.url };
    let service = await startService({ env });
    const body = { action: 'retry', filter: {}, all: true, expect: RUNS };
    const started = await senderTo(service.url, service.adminKey)('POST', '/bulk-operations', { body });
    assert.equal(started.status, 202, started.text);
    for (let kills = 0; kills < 3; kills += 1) {
      const seen = await processed();
      await until(async () => (await processed()) > seen, 'the operation goes on');
      await service.kill();
      assert.ok((await processed()) < RUNS, 'it was at work when it was killed');
      service = await startService({ env });
    }
    const send = senderTo(service.url, service.adminKey);
    const show = async () => (await send('GET', `/bulk-operations/${started.body.id}`)).body;
    await until(async () => (await show()).state === 'done', 'the operation ends');
    const { matched, done, refused, remaining } = await show();
    assert.deepEqual([matched, done, refused, remaining], [RUNS, RUNS, [], 0]);
    const after = await rows<{ id: string; attempt: number }>(
      database.dataSource,
      'select id, attempt from runs',
    );
    const attempts = new Map(after.map(({ id, attempt }) => [id, attempt]));
    assert.deepEqual(
      before.filter(
        ({ id, attempt, state }) => attempts.get(id) !== (state === 'COMPLETED' ? attempt : attempt + 1),
      ),
      [],
    );
    const entries = (await send('GET', '/audit')).body;
    assert.deepEqual(
      entries.map(({ action, subject, after: { matched: all, done: changed, stopped } }: Json) => ({
        action,
        subject,
        counts: [all, changed, stopped],
      })),
      [{ action: 'bulk.start', subject: started.body.id, counts: [RUNS, RUNS, false] }],
    );
    assert.deepEqual(await rows(database.dataSource, 'select from idempotency_keys'), []);
    assert.equal(await service.stop(), 0);
  });
});
