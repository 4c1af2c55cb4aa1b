import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';

/** Longest wait for something that is to happen within milliseconds, for a machine that is busy. */
const PATIENCE_MS = 10_000;

/**
 * Lets seconds pass for runs, by moving all that they wait for nearer by that much.
 * @param tell false: no process of the service is told
 */
export async function letTimePass(
  dataSource: DataSource,
  runIds: readonly string[],
  seconds: number,
  tell = true,
): Promise<void> {
  await dataSource.transaction(async (manager) => {
    const by = [runIds, `${seconds} seconds`];
    await manager.query(
      `update runs
          set queued_at = queued_at - $2::interval,
              assigned_at = assigned_at - $2::interval,
              started_at = started_at - $2::interval,
              not_before = not_before - $2::interval,
              start_at = start_at - $2::interval
        where id = any($1::uuid[])`,
      by,
    );
    await manager.query(
      'update run_deadlines set due_at = due_at - $2::interval where run_id = any($1::uuid[])',
      by,
    );
    if (tell) await manager.query(`select pg_notify('longshore_deadlines', '0')`);
  });
}

/** Asks again and again until the answer is as wanted; answers it. */
export async function until<T>(ask: () => Promise<T>, wanted: (answer: T) => boolean): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (wanted(answer)) return answer;
    assert.ok(performance.now() < deadline, `it did not happen; at last: ${JSON.stringify(answer)}`);
    await sleep(10);
  }
}
