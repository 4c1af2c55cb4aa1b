import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { currentTime, execute, rows } from '../../../src/database/sql/sql.js';
import { LogRemovalJob, ROWS_PER_BATCH, SETTLED_MS } from '../../../src/run-logs/log-removal.job.js';
import { putChunk, readWhole, told } from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the logs of removed runs', () => {
  const one = useTestApp();
  const two = useTestApp(() => ({ database: one.database }));
  const steps = new RunSteps(one.send);

  async function later(ms: number): Promise<Date> {
    return new Date((await currentTime(one.dataSource)).getTime() + ms);
  }

  async function left(): Promise<unknown> {
    const [counts] = await rows(
      one.dataSource,
      `select (select count(*)::integer from run_logs) as logs,
              (select count(*)::integer from run_log_rows) as rows,
              (select count(*)::integer from run_log_removals) as removals`,
    );
    return counts;
  }

  test('are removed in batches when no chunk can be in progress; others are kept', async () => {
    const kept = await steps.running();
    await putChunk(one.send, { run: kept.id }, 0, { firstLine: 0, texts: ['kept'] });
    const gone = await Promise.all([steps.running(), steps.running(), steps.create()]);
    for (const { id: run } of gone.slice(0, 2)) {
      await putChunk(one.send, { run }, 0, { firstLine: 0, texts: ['gone'] });
      await execute(
        one.dataSource,
        `insert into run_log_rows
         select run_id, attempt, n, 1, 1, n, 0, n, lines
           from run_log_rows, generate_series(1, $2::integer) n
          where run_id = $1::uuid`,
        [run, ROWS_PER_BATCH],
      );
    }
    await execute(one.dataSource, 'delete from runs where id = any($1::uuid[])', [gone.map(({ id }) => id)]);
    const job = one.app.get(LogRemovalJob);
    assert.equal(await job.runOnce(await later(SETTLED_MS / 2)), 0, 'not yet');
    assert.deepEqual(await left(), { logs: 3, rows: 2 * (ROWS_PER_BATCH + 1) + 1, removals: 3 });
    const at = await later(SETTLED_MS + 1000);
    const removed = await Promise.all([job.runOnce(at), two.app.get(LogRemovalJob).runOnce(at)]);
    assert.ok(removed[0] + removed[1] <= 3);
    await job.runOnce(at);
    assert.deepEqual(await left(), { logs: 1, rows: 1, removals: 0 });
    assert.deepEqual(told(await readWhole(one.send, kept.id)), ['kept']);
    for (const { id: run } of gone) {
      assert.equal((await one.send('GET', `/runs/${run}/logs`)).status, 404);
      assert.equal((await putChunk(one.send, { run }, 1, { firstLine: 1, texts: ['x'] })).status, 404);
    }
  });
});
