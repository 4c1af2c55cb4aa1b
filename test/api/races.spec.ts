import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { histogramTotals, since, type HistogramTotals } from '../support/monitoring/metrics.js';
import { checkInvariants } from '../support/runs/run-invariants.js';
import { RunSteps } from '../support/runs/run-steps.js';
import { useTestApp, useTestDatabase } from '../support/app/use-test-app.js';

describe('requests that race', () => {
  const database = useTestDatabase();
  const first = useTestApp(() => ({ database }));
  const second = useTestApp(() => ({ database }));
  let sides: readonly [RunSteps, RunSteps];

  beforeAll(async () => {
    sides = [new RunSteps(first.send), new RunSteps(second.send)];
    for (const steps of sides) await steps.heartbeat();
  });

  const on = (i: number): RunSteps => sides[i % 2] ?? sides[0];

  for (const [where, processes] of [
    ['one process', 1],
    ['two processes on one database', 2],
  ] as const) {
    test(`300 claims at once on 200 runs hand out each exactly once, on ${where}`, async () => {
      const pick = (i: number): RunSteps => on(processes === 1 ? 0 : i);
      await on(0).emptyQueue();
      const created = await Promise.all(Array.from({ length: 200 }, (_, i) => pick(i).create()));
      const workers = Array.from({ length: 30 }, (_, i) => `worker-${i}`);
      await Promise.all(workers.flatMap((id) => sides.map((steps) => steps.heartbeat(id))));
      const claims = await Promise.all(
        Array.from({ length: 300 }, async (_, i) => {
          const worker = `worker-${i % 30}`;
          return (await pick(i).claim(worker)).map((op) => ({ id: String(op.id), worker }));
        }),
      );
      assert.equal(claims.filter((ops) => ops.length === 0).length, 100);
      const handed = claims.flat();
      assert.deepEqual(handed.map(({ id }) => id).toSorted(), created.map(({ id }) => String(id)).toSorted());
      for (const { id, worker } of handed) {
        const { state, execution_summary: summary } = await on(1).get(id);
        assert.deepEqual([state, summary.worker_id], ['ASSIGNED', worker]);
      }
      assert.deepEqual(await on(0).claim('worker-0'), []);
    });
  }

  test('COMPLETED, cancel and retry of one run: what was answered is what happened', async () => {
    const outcomes = new Set<string>();
    for (let round = 0; round < 40; round += 1) {
      const { id } = await on(0).running({ event_delivery: { topic: 'race' } });
      const completed = { type: 'COMPLETED', msg: '', payload: { outputs: { round } } };
      const racers = [
        ['COMPLETED', () => on(round).report(id, completed, { worker: 'w', attempt: 1 })],
        ['CANCELLED', () => on(round + 1).send('POST', `/runs/${id}/cancel`)],
        ['RETRIED', () => on(round >> 1).send('POST', `/runs/${id}/retry`)],
      ] as const;
      const turned = [...racers.slice(round % 3), ...racers.slice(0, round % 3)];
      const answers = await Promise.all(turned.map(async ([type, act]) => ({ type, ...(await act()) })));
      const accepted = answers.filter(({ status }) => status === 200).map(({ type }) => type);
      for (const { status } of answers) assert.ok([200, 400, 409].includes(status), `${status}`);
      const [seen, elsewhere] = await Promise.all(sides.map((steps) => steps.get(id)));
      assert.deepEqual(seen, elsewhere);
      const recorded: string[] = seen.events.map(({ type }: { type: string }) => type);
      assert.deepEqual(recorded.slice(1).toSorted(), accepted.toSorted());
      assert.ok(accepted.includes('RETRIED'), 'a retry is always taken');
      outcomes.add(recorded.slice(1).join());
    }
    await checkInvariants(database.dataSource);
    assert.ok(outcomes.size > 1, 'the races had more than one winner');
  });

  test('50 cancels of one run: one is taken, the others are told that it is cancelled', async () => {
    const { id } = await on(0).running();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => on(i).send('POST', `/runs/${id}/cancel`)),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    const refused = answers
      .filter(({ status }) => status !== 200)
      .map(({ status, text }) => `${status} ${text}`);
    const detail = 'Run is already in terminal state CANCELLED';
    assert.deepEqual(new Set(refused), new Set([`400 ${JSON.stringify({ detail })}`]));
    assert.equal((await on(1).poll(id)).length, 2);
  });

  test('two reports of the end of one attempt: one is taken', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id } = await on(0).running({ retry_policy: { max_attempts: 3 } });
      const fence = { worker: 'w', attempt: 1 };
      const answers = await Promise.all([
        on(0).report(id, { type: 'FAILED', msg: '' }, fence),
        on(1).report(id, { type: 'FAILED', msg: '' }, fence),
      ]);
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 409]));
      assert.equal((await on(round).get(id)).current_attempt, 2);
    }
  });

  async function groups(): Promise<HistogramTotals> {
    const { text } = await first.send('GET', '/metrics');
    return histogramTotals(text, 'longshore_journal_group_size');
  }

  test('events of 32 clients at once go through in groups, each event once and none lost', async () => {
    const runs = await Promise.all(Array.from({ length: 32 }, () => on(0).create()));
    const earlier = await groups();
    await Promise.all(
      runs.map(async ({ id }) => {
        for (let i = 0; i < 30; i += 1) await on(0).note(id);
      }),
    );
    const { count, sum } = since(earlier, await groups());
    assert.equal(sum, 32 * 30, 'every command is in one group');
    assert.ok(sum / count > 2, `${(sum / count).toFixed(1)} commands a group on average`);
    for (const { id } of runs) assert.equal((await on(1).poll(id)).length, 30);
  });

  test('a lone client has groups of one', async () => {
    const { id } = await on(0).create();
    const earlier = await groups();
    for (let i = 0; i < 50; i += 1) await on(0).note(id);
    assert.deepEqual(since(earlier, await groups()), { count: 50, sum: 50 });
  });
});
