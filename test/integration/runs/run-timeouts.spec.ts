import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { currentTime } from '../../../src/database/sql/sql.js';
import { RunTimeoutsJob, POSTPONE_MS, RUNS_PER_BATCH } from '../../../src/runs/run-timeouts.job.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { freshRun } from '../../support/runs/journal.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { logStatementsByDatabase } from '../../support/postgres/statement-log.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const FAR_AWAY_S = 31_622_400;
const QUIET_MS = 1_000;

const statementsOf = logStatementsByDatabase();

/** Creates runs that have to be started within so many seconds; answers their ids. */
async function createRuns(
  service: TestApp,
  count: number,
  startWithinS: number | null,
  others: (i: number) => Partial<NewRun> = () => ({}),
): Promise<string[]> {
  const journal = service.app.get(RunJournal, { strict: false });
  const runs = Array.from({ length: count }, (_, i) => freshRun({ startWithinS, ...others(i) }));
  await Promise.all(runs.map((run) => journal.create(run)));
  return runs.map(({ id }) => id);
}

/** How many of the runs are in the state, and entries of their timelines by type. */
async function statusOf(service: TestApp, runIds: readonly string[]): Promise<[string, number][]> {
  const [row] = await service.dataSource.query(
    `select (select count(*)::integer from runs where id = any($1::uuid[]) and state = 'FAILED') as failed,
            (select count(*)::integer from events where run_id = any($1::uuid[])) as entries,
            (select count(*)::integer from run_timers where run_id = any($1::uuid[])) as timers`,
    [runIds],
  );
  return Object.entries(row);
}

const DONE_ONCE = (count: number): [string, number][] => [
  ['failed', count],
  ['entries', count],
  ['timers', 0],
];

async function untilDone(service: TestApp, runIds: readonly string[]): Promise<void> {
  await until(
    () => statusOf(service, runIds),
    ([failed]) => failed?.[1] === runIds.length,
  );
  assert.deepEqual(await statusOf(service, runIds), DONE_ONCE(runIds.length));
}

/** Waits until what processes do at their start is over: nothing is sent for a while. */
async function untilQuiet({ url }: TestDatabase): Promise<void> {
  const statements = statementsOf(url);
  for (let sent = -1; sent !== statements.length;) {
    sent = statements.length;
    await sleep(200);
  }
}

/** Runs an action on one or two processes of the service on one database. */
async function withProcesses(
  count: number,
  action: (processes: readonly TestApp[], database: TestDatabase) => Promise<void>,
): Promise<void> {
  const database = await openTestDatabase();
  const processes: TestApp[] = [];
  try {
    for (let i = 0; i < count; i += 1) processes.push(await startTestApp({ database }));
    await untilQuiet(database);
    await action(processes, database);
  } finally {
    await Promise.all(processes.map((process) => process.close()));
    await database.close();
  }
}

/** The first of a list that must not be empty. */
function first<T>(items: readonly T[]): T {
  const [item] = items;
  assert.ok(item);
  return item;
}

// Each on a database of its own, waiting most of the time.
describe('timeouts of runs', { concurrent: true }, () => {
  test('that elapse while no process runs are applied by the next one', async () => {
    await withProcesses(0, async (_, database) => {
      const earlier = await startTestApp({ database });
      const ids = await createRuns(earlier, 3, 60);
      await earlier.close();
      await letTimePass(database.dataSource, ids, 61, false);
      const later = await startTestApp({ database });
      await untilDone(later, ids);
      await later.close();
    });
  });

  test('in the future are known to a process that starts later', async () => {
    await withProcesses(0, async (_, database) => {
      const earlier = await startTestApp({ database });
      const ids = await createRuns(earlier, 1, 60);
      await earlier.close();
      await letTimePass(database.dataSource, ids, 58, false);
      const later = await startTestApp({ database });
      assert.deepEqual(await statusOf(later, ids), [
        ['failed', 0],
        ['entries', 0],
        ['timers', 1],
      ]);
      await untilDone(later, ids);
      await later.close();
    });
  });

  test('are applied by a process that did not set them', async () => {
    await withProcesses(1, async ([remaining], database) => {
      assert.ok(remaining);
      const leaving = await startTestApp({ database });
      const ids = await createRuns(leaving, 1, 1);
      await leaving.close();
      await untilDone(remaining, ids);
    });
  });

  test('are applied once, by any number of processes', async () => {
    await withProcesses(2, async ([one, other]) => {
      assert.ok(one && other);
      const ids = await createRuns(one, 300, 60);
      await letTimePass(one.dataSource, ids, 60);
      await untilDone(one, ids);
      // At the same instant, which jitter otherwise prevents.
      const again = await createRuns(one, 300, 60);
      await letTimePass(one.dataSource, again, 60, false);
      const now = await currentTime(one.dataSource);
      const passes = await Promise.all(
        [one, other].map(({ app }) => app.get(RunTimeoutsJob, { strict: false }).runOnce(now)),
      );
      const sum = (count: 'applied' | 'failed'): number =>
        passes.reduce((total, counts) => total + counts[count], 0);
      assert.deepEqual([sum('applied'), sum('failed')], [300, 0]);
      assert.deepEqual(await statusOf(one, again), DONE_ONCE(300));
    });
  });

  test('of a thousand runs are applied in bounded batches, with few statements', async () => {
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const statements = statementsOf(database.url);
      const ids = await createRuns(service, 1_000, 60);
      await letTimePass(service.dataSource, ids, 60, false);
      const now = await currentTime(service.dataSource);
      statements.length = 0;
      const counts = await service.app.get(RunTimeoutsJob, { strict: false }).runOnce(now);
      const sent = statements.length;
      assert.deepEqual(counts, { applied: 1_000, nothingDue: 0, failed: 0 });
      assert.deepEqual(await statusOf(service, ids), DONE_ONCE(1_000));
      assert.ok(sent < 120, `${sent} statements`);
    });
  });

  test('have the same reason if the runs are alike, and none after ten reasons', async () => {
    await withProcesses(1, async (processes) => {
      const service = first(processes);
      const ids = await createRuns(service, 24, 60, (i) => ({ ramMb: i % 12 }));
      await letTimePass(service.dataSource, ids, 60, false);
      await service.app.get(RunTimeoutsJob, { strict: false }).runOnce(await currentTime(service.dataSource));
      const found: { readonly message: string; readonly count: number }[] = await service.dataSource.query(
        `select error_message as message, count(*)::integer as count from runs where id = any($1::uuid[]) group by 1`,
        [ids],
      );
      assert.deepEqual(Object.fromEntries(found.map(({ message, count }) => [message, count])), {
        'Not started within 60 s: no worker is active': 20,
        'Not started within 60 s': 4,
      });
    });
  });

  test('are left to the next run of the job, after the batch in progress, when it is stopped', async () => {
    await withProcesses(1, async (processes) => {
      const service = first(processes);
      const ids = await createRuns(service, RUNS_PER_BATCH + 50, 60);
      await letTimePass(service.dataSource, ids, 60, false);
      const job = service.app.get(RunTimeoutsJob, { strict: false });
      const now = await currentTime(service.dataSource);
      assert.equal((await job.runOnce(now, AbortSignal.abort())).applied, RUNS_PER_BATCH);
      // The process may have begun the next run of the job by itself.
      await job.runOnce(now);
      await untilDone(service, ids);
    });
  });

  test('in the future cost no statement', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const statements = statementsOf(database.url);
      await createRuns(service, 50, 3_600);
      await createRuns(service, 1, FAR_AWAY_S);
      await sleep(500);
      statements.length = 0;
      await sleep(2 * QUIET_MS);
      assert.deepEqual(
        statements.filter((statement) => statement.includes('run_timers')),
        [],
      );
    });
    process.off('warning', note);
    assert.deepEqual(warnings, []);
  });

  test('with invalid rows do not keep a process busy', async () => {
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const statements = statementsOf(database.url);
      const [pending] = await createRuns(service, 1, null);
      const unknown = uuidv7();
      await service.dataSource.query(
        `insert into run_timers (run_id, due_at)
         select id, now() - interval '1 hour' from unnest($1::uuid[]) as id`,
        [[pending, unknown]],
      );
      statements.length = 0;
      await letTimePass(service.dataSource, [], 0);
      await sleep(QUIET_MS);
      assert.ok(statements.length < 40, `${statements.length} statements`);
      const left = await service.dataSource.query('select 1 from run_timers where due_at <= now()');
      assert.deepEqual(left, []);
      assert.equal((await service.send('GET', `/runs/${pending}`)).body.state, 'PENDING');
    });
  });

  test('of a locked run neither block the others nor get lost', async () => {
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const [held, ...others] = await createRuns(service, 4, 60);
      assert.ok(held);
      await letTimePass(service.dataSource, [held, ...others], 60, false);
      const holder = await database.open(1);
      const job = service.app.get(RunTimeoutsJob, { strict: false });
      const now = await currentTime(service.dataSource);
      await holder.transaction(async (manager) => {
        await manager.query('select 1 from runs where id = $1 for update', [held]);
        assert.deepEqual(await job.runOnce(now), { applied: 3, nothingDue: 0, failed: 1 });
      });
      assert.deepEqual(await statusOf(service, others), DONE_ONCE(3));
      assert.ok(service.logged.some((line) => line['msg'] === 'could not apply the timeout of a run'));
      const [row] = await service.dataSource.query(
        'select extract(epoch from due_at - $2::timestamptz) * 1000 as "inMs" from run_timers where run_id = $1',
        [held, now.toISOString()],
      );
      assert.equal(Number(row.inMs), POSTPONE_MS);
      await letTimePass(service.dataSource, [held], 60);
      await untilDone(service, [held]);
    });
  });

  test('are applied when the database is reachable again', async () => {
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const ids = await createRuns(service, 5, 1);
      const killer = await database.open(1);
      for (let i = 0; i < 12; i += 1) {
        await killer.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()`,
        );
        await sleep(100);
      }
      await untilDone(service, ids);
    });
  });

  test('are searched again after a failed run of the job, without an announcement', async () => {
    await withProcesses(1, async (processes, database) => {
      const service = first(processes);
      const ids = await createRuns(service, 2, 60);
      await letTimePass(service.dataSource, ids, 60, false);
      const holder = await database.open(1);
      await holder.transaction(async (manager) => {
        await manager.query('lock table run_timers in access exclusive mode');
        await sendNotice(service.dataSource, { timerInMs: 0 });
        await until(
          () => Promise.resolve(service.logged.map((line) => String(line['msg']))),
          (lines) => lines.some((line) => line.startsWith('scheduled job failed')),
        );
      });
      await untilDone(service, ids);
    });
  });

  test('with an invalid announcement are searched at once', async () => {
    await withProcesses(1, async (processes) => {
      const service = first(processes);
      const ids = await createRuns(service, 1, 60);
      await letTimePass(service.dataSource, ids, 60, false);
      await service.dataSource.query(`select pg_notify('longshore_commit', 'soon')`);
      await untilDone(service, ids);
    });
  });

  test('are not applied by a process that has shut down', async () => {
    await withProcesses(0, async (_, database) => {
      const service = await startTestApp({ database });
      const ids = await createRuns(service, 1, 1);
      await service.close();
      const logged = service.logged.length;
      await sleep(1_300);
      assert.deepEqual(service.logged.slice(logged), []);
      const [row] = await database.dataSource.query('select state from runs where id = $1', [ids[0]]);
      assert.equal(row.state, 'PENDING');
    });
  });
});
