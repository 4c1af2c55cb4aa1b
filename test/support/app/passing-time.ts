import assert from 'node:assert/strict';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { HELD } from '../../../src/runs/machine/run.js';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { KEYS, type TestApp } from './test-app.js';

/** Longest wait for something that is to happen within milliseconds, for a machine that is busy. */
const PATIENCE_MS = 120_000;

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
              not_before = case when not_before = '${HELD.toISOString()}' then not_before else not_before - $2::interval end,
              start_at = start_at - $2::interval
        where id = any($1::uuid[])`,
      by,
    );
    await manager.query(
      'update executions set assigned_at = assigned_at - $2::interval where run_id = any($1::uuid[])',
      by,
    );
    await manager.query(
      'update run_timers set due_at = due_at - $2::interval where run_id = any($1::uuid[])',
      by,
    );
    if (tell) await sendNotice(manager, { timerInMs: 0 });
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

/**
 * What the promise brings, which must come before a wait of 25 seconds times out that begins now in the service. No clock
 * of the test says so, but the order of the two answers: a wait of 30 seconds that began just before would be too late.
 * @param service must be neither draining nor without its feed
 */
export async function beforeTimeOut<T>({ url }: Pick<TestApp, 'url'>, awaited: Promise<T>): Promise<T> {
  const end = new AbortController();
  let timedOut = false;
  const headers = { 'X-API-Key': KEYS.client };
  const waitOut = async (): Promise<void> => {
    const { status } = await fetch(`${url}/feed?topic=nothing-comes&wait=25`, {
      headers,
      signal: end.signal,
    });
    timedOut = true;
    assert.equal(status, 200);
  };
  const reference = waitOut();
  try {
    const result = await Promise.race([awaited, reference.then(() => awaited)]);
    assert.ok(!timedOut, 'it came before the wait was over');
    return result;
  } finally {
    end.abort();
    await reference.catch(() => undefined);
  }
}
