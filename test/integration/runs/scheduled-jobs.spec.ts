import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { ModuleRef } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { scheduledJobs } from '../../../src/bootstrap/scheduled-jobs.js';
import type { ScheduledJob } from '../../../src/common/scheduling/scheduled-job.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { PROJECT } from '../../support/service-process.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';

const LOCK = 'pg_try_advisory_xact_lock';

describe('the registry of scheduled jobs', () => {
  const jobs = scheduledJobs(loadSettings([], {}));
  const statements = logStatements();
  let service: TestApp;

  beforeAll(async () => {
    service = await startTestApp({ env: { SERVICE_RUN_RETENTION_DAYS: '1' } });
  });
  afterAll(() => service.close());

  test('has a timer of each job, by its name, and its metrics', async () => {
    const timers = service.app.get(SchedulerRegistry).getTimeouts();
    const { text } = await service.send('GET', '/metrics');
    for (const { name } of jobs) {
      assert.match(name, /^[a-z]+(?:_[a-z]+)*$/);
      assert.ok(timers.includes(name), name);
      assert.ok(text.includes(`longshore_job_last_success_timestamp_seconds{name="${name}"}`), name);
    }
    assert.equal(timers.length, jobs.length);
  });

  test('says truly which jobs one process at a time does: those that take an advisory lock', async () => {
    for (const job of jobs) {
      const work = job.resolve(service.app.get(ModuleRef));
      const now = new Date();
      statements.length = 0;
      await work({ now: () => Promise.resolve(now), stop: new AbortController().signal });
      assert.equal(
        statements.some((statement) => statement.includes(LOCK)),
        job.processes === 'one',
        job.name,
      );
    }
  });

  test('is what docs/operations.md shows', async () => {
    const page = await readFile(join(PROJECT, 'docs', 'operations.md'), 'utf8');
    const rows = page
      .split('\n')
      .flatMap((line) => (/^\| `[a-z_]+` +\|.*\d/.test(line) ? [cellsOf(line)] : []));
    assert.deepEqual(rows, jobs.map(rowOf));
  });

  test('keeps the time between two runs above their jitter', () => {
    for (const { name, everyMs, jitterMs } of jobs) assert.ok(jitterMs < everyMs, name);
  });
});

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** With the times of the default settings. */
function rowOf({ name, description, everyMs, jitterMs, firstDelayMs, processes }: ScheduledJob): string[] {
  const times = [everyMs, jitterMs, firstDelayMs].map((ms) => `${ms / 1000} s`);
  return [`\`${name}\``, description, ...times, processes];
}
