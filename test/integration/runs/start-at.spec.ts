import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { currentTime, rows } from '../../../src/database/sql/sql.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { freshRun } from '../../support/runs/journal.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** How late a waiting worker may get a run. */
const LATEST_MS = 1_000;

/** Creates runs that start so many seconds from now by the database's clock. @returns their ids, in order */
async function createIn(
  { app, dataSource }: TestApp,
  seconds: readonly (number | null)[],
  given: Partial<NewRun> = {},
): Promise<string[]> {
  const now = await currentTime(dataSource);
  const journal = app.get(RunJournal, { strict: false });
  const runs = seconds.map((s) =>
    freshRun({ ...given, startAt: s === null ? null : new Date(now.getTime() + s * 1000) }),
  );
  await Promise.all(runs.map((run) => journal.create(run)));
  return runs.map(({ id }) => id);
}

describe('a run with a start_at', () => {
  const service = useTestApp();
  const twin = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const create = async (seconds: number, given: Partial<NewRun> = {}): Promise<string> => {
    const [id] = await createIn(service, [seconds], given);
    assert.ok(id);
    return id;
  };
  const claimed = async (): Promise<string[]> => (await steps.claim()).map(({ id }) => id);

  test('is given to a worker that waits at another process, at most a second late and never early', async () => {
    await new RunSteps(twin.send).heartbeat('waiting');
    const answer = twin.send('POST', '/workers/waiting/claim?wait=20');
    const id = await create(1.5);
    const { body } = await answer;
    assert.deepEqual(
      body.ops.map((op: { id: string }) => op.id),
      [id],
    );
    const [run] = await rows<{ lateMs: number }>(
      service.dataSource,
      `select extract(epoch from assigned_at - start_at)::float8 * 1000 as "lateMs" from runs where id = $1`,
      [id],
    );
    assert.ok(run && run.lateMs >= 0 && run.lateMs <= LATEST_MS, `${run?.lateMs} ms late`);
  });

  test('leaves runs that were created in the same commit claimable', async () => {
    const [, plain] = await createIn(service, [60, null, 60, -60]);
    assert.deepEqual(await claimed(), [plain]);
    assert.equal((await claimed()).length, 1, 'a past one counts as now');
    assert.deepEqual(await claimed(), []);
  });

  test('is counted as waiting, not as ready', async () => {
    const waiting = async (): Promise<number[]> => {
      const { body } = await service.send('GET', '/capacity');
      return [body.demand.ready.runs, body.demand.waiting.runs];
    };
    const [ready, delayed] = await waiting();
    assert.ok(ready !== undefined && delayed !== undefined);
    const id = await create(60);
    assert.deepEqual(await waiting(), [ready, delayed + 1]);
    await service.send('POST', `/runs/${id}/cancel`);
    assert.deepEqual(await waiting(), [ready, delayed]);
  });

  test('of thousands at the same instant is claimable once each, in whichever process', async () => {
    const ids = await createIn(
      service,
      Array.from({ length: 2_000 }, () => 2),
    );
    const queued = await until(
      () =>
        rows<{ lateMs: number }>(
          service.dataSource,
          `select extract(epoch from r.queued_at - r.start_at)::float8 * 1000 as "lateMs"
             from queue q
             join runs r on r.id = q.run_id
            where r.id = any($1::uuid[])`,
          [ids],
        ),
      (found) => found.length === ids.length,
    );
    assert.ok(queued.every(({ lateMs }) => lateMs >= 0));
    assert.deepEqual(
      await rows(service.dataSource, 'select 1 from run_timers where run_id = any($1::uuid[])', [ids]),
      [],
    );
  });
});

test('a start_at that passes while no process runs is seen by the next one', async () => {
  const database = await openTestDatabase();
  try {
    const earlier = await startTestApp({ database });
    const [id] = await createIn(earlier, [60]);
    assert.ok(id);
    await earlier.close();
    await letTimePass(database.dataSource, [id], 61, false);
    const later = await startTestApp({ database });
    const steps = new RunSteps(later.send);
    await steps.heartbeat();
    await until(
      () => steps.claim(),
      (ops) => ops.length === 1,
    );
    await later.close();
  } finally {
    await database.close();
  }
});
