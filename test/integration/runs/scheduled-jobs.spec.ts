import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, test } from 'vitest';
import { SchedulerRegistry } from '@nestjs/schedule';
import { JobExplorer, type Job } from '../../../src/common/scheduling/job-scheduler.js';
import { PROJECT } from '../../support/service-process.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LOCK = 'pg_try_advisory_xact_lock';

describe('the scheduled jobs', () => {
  const statements = logStatements();
  const service = useTestApp({
    env: { SERVICE_RUN_RETENTION_DAYS: '1', SERVICE_REAPER_INTERVAL: '', SERVICE_WORKER_TIMEOUT: '' },
  });
  let jobs: Job[];

  beforeAll(async () => {
    jobs = service.app.get(JobExplorer).find();
    // Without a lane there is nothing to clean up, and no lock is taken.
    await service.send('POST', '/runs', { body: { image: 'i', selector: ['a'] } });
  });

  test('have a timer each, by their name, and metrics', async () => {
    const timers = service.app.get(SchedulerRegistry).getTimeouts();
    const { text } = await service.send('GET', '/metrics');
    for (const { name } of jobs) {
      assert.match(name, /^[a-z]+(?:_[a-z]+)*$/);
      assert.ok(timers.includes(name), name);
      assert.ok(text.includes(`longshore_job_last_success_timestamp_seconds{name="${name}"}`), name);
    }
    assert.equal(timers.length, jobs.length);
  });

  test('are those of docs/operations.md, which says of those that take an advisory lock that one process does them', async () => {
    const expected: string[][] = [];
    for (const job of jobs) {
      statements.length = 0;
      await job.work(new AbortController().signal);
      const isAlone = statements.some((statement) => statement.includes(LOCK));
      expected.push(rowOf(job, isAlone ? 'one' : 'all'));
    }
    const page = await readFile(join(PROJECT, 'docs', 'operations.md'), 'utf8');
    const rows = page
      .split('\n')
      .flatMap((line) => (/^\| `[a-z_]+` +\|.*\d/.test(line) ? [cellsOf(line)] : []));
    assert.deepEqual(rows.toSorted(byName), expected.toSorted(byName));
  });

  test('keep the time between two runs above their jitter', () => {
    for (const { name, everyMs, jitterMs } of jobs) assert.ok(jitterMs < everyMs, name);
  });
});

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

function byName([a = '']: readonly string[], [b = '']: readonly string[]): number {
  return a < b ? -1 : 1;
}

/** With the times of the default settings. */
function rowOf({ name, description, everyMs, jitterMs, firstDelayMs }: Job, processes: string): string[] {
  const times = [everyMs, jitterMs, firstDelayMs].map((ms) => `${ms / 1000} s`);
  return [`\`${name}\``, description, ...times, processes];
}
