import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { JobExplorer } from '../../../src/common/scheduling/job-scheduler.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { AuditRetentionJob } from '../../../src/runs/audit/audit-retention.job.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOW = new Date('2026-03-10T12:00:00.000Z');
const DAY_MS = 86_400_000;

describe('the retention of the audit log', () => {
  const service = useTestApp();

  beforeEach(() => execute(service.dataSource, 'delete from audit_entries'));

  const jobOf = (auditRetentionDays: number): AuditRetentionJob =>
    new AuditRetentionJob(service.dataSource, { auditRetentionDays });
  /** Entries of an age in milliseconds, as seen at NOW. */
  const insert = (subject: string, count: number, age: number): Promise<number> =>
    execute(
      service.dataSource,
      `insert into audit_entries (t, key_name, action, subject, before, after)
       select $2::timestamptz, 'admin', 'key.create', $1::text || n, '{}', '{}'
         from generate_series(1, $3::integer) as n`,
      [subject, new Date(NOW.getTime() - age).toISOString(), count],
    );
  const kept = async (): Promise<string[]> =>
    (
      await rows<{ subject: string }>(service.dataSource, 'select subject from audit_entries order by id')
    ).map(({ subject }) => subject);

  test('removes what is older than the days of the setting, in any number, and keeps the rest', async () => {
    await insert('old', 2500, 8 * DAY_MS);
    await insert('older', 1, 7 * DAY_MS + 1);
    await insert('just', 1, 7 * DAY_MS);
    await insert('young', 2, DAY_MS);
    assert.equal(await jobOf(7).runOnce(NOW), 2501);
    assert.deepEqual(await kept(), ['just1', 'young1', 'young2']);
    assert.equal(await jobOf(7).runOnce(NOW), 0);
  });

  test('removes each entry once with several processes', async () => {
    await insert('old', 4000, 8 * DAY_MS);
    const removed = await Promise.all([1, 2, 3].map(() => jobOf(7).runOnce(NOW)));
    const rest = await jobOf(7).runOnce(NOW);
    assert.equal(
      removed.reduce((sum, count) => sum + count, rest),
      4000,
    );
    assert.deepEqual(await kept(), []);
  });

  test('keeps everything with 0 days, and 400 days unless the setting says otherwise', async () => {
    await insert('old', 1, 10_000 * DAY_MS);
    assert.equal(await jobOf(0).runOnce(NOW), 0);
    await insert('young', 1, NOW.getTime() - Date.now() + 399 * DAY_MS);
    const job = service.app
      .get(JobExplorer)
      .find()
      .find(({ name }) => name === 'audit_retention');
    assert.equal(await job?.work(new AbortController().signal), 1);
    assert.deepEqual(await kept(), ['young1']);
  });
});
