import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertError } from '../../support/http/answer-shapes.js';
import { until } from '../../support/app/passing-time.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestApp, useTestDatabase } from '../../support/app/use-test-app.js';

const TIMEOUT_S = 3;
const INTERVAL_S = 0.2;
const ENV = { SERVICE_WORKER_TIMEOUT: String(TIMEOUT_S), SERVICE_REAPER_INTERVAL: String(INTERVAL_S) };

/** The word of /health about the reaper. */
async function reaperWord({ send }: TestApp): Promise<unknown> {
  return (await send('GET', '/health', { key: null })).body.reaper;
}

/** Heartbeats of a worker, five in a timeout, until they are ended. */
function beat(steps: readonly RunSteps[], worker: string): () => Promise<void> {
  const end = new AbortController();
  const beating = (async () => {
    for (let i = 0; !end.signal.aborted; i += 1) {
      await steps[i % steps.length]?.heartbeat(worker);
      await sleep(TIMEOUT_S * 200);
    }
  })();
  return () => {
    end.abort();
    return beating;
  };
}

// Each describe has a database of its own and waits most of the time.
describe('reclaiming', { concurrent: true }, () => {
  describe('a worker that is lost', { concurrent: false }, () => {
    const service = useTestApp({ env: ENV });
    const steps = new RunSteps(service.send);

    /** Everything that clients can see of a run, as it comes over the wire. */
    async function wire(id: string): Promise<string> {
      const paths = [`/runs/${id}`, `/runs/${id}/attempts`, `/runs/${id}/events`, '/feed?topic=losses'];
      const answers = await Promise.all(paths.map((path) => service.send('GET', path)));
      return answers.map(({ status, text }) => `${status} ${text}`).join('\n');
    }

    test('loses its runs: another gets them once it counts as silent; it is shown everywhere', async () => {
      assert.equal(await reaperWord(service), 'waiting');
      await until(
        () => reaperWord(service),
        (word) => word === 'ok',
      );
      const { id } = await steps.running({ event_delivery: { topic: 'losses' } }, 'lost');
      const { last_heartbeat_at: lastHeartbeatAt } = await steps.heartbeat('lost');
      const end = beat([steps], 'well');
      const [op] = await until(
        () => steps.claim('well'),
        (ops) => ops.length > 0,
      );
      const { body: workers } = await service.send('GET', '/workers');
      await end();
      const silent = workers.find(({ id: worker }: { id: string }) => worker === 'lost');
      assert.equal(silent.is_active, false, 'not before the timeout');
      assert.deepEqual([op.id, op.attempt], [id, 2]);

      const expected = {
        attempt: 1,
        type: 'RECLAIMED',
        msg: "Worker 'lost' lost",
        payload: { worker_id: 'lost', last_heartbeat_at: lastHeartbeatAt },
      };
      const run = await steps.get(id);
      const [, { t: _, ...entry }] = run.events;
      assert.deepEqual(entry, { id: 1, ...expected });
      const polled: unknown[] = (await steps.poll(id)).map(({ type }) => type);
      assert.deepEqual(polled, ['STARTED', 'RECLAIMED']);
      assert.deepEqual([run.state, run.current_attempt, run.execution_summary.reclaims], ['ASSIGNED', 2, 1]);
      const [first] = await steps.attempts(id);
      assert.deepEqual([first.state, first.execution_summary.worker_id], ['FAILED', 'lost']);
      assert.equal(first.execution_summary.error_message, "Worker 'lost' lost");
      const feed = await service.send('GET', '/feed?topic=losses');
      const types = feed.body.events.map(({ type, state }: { type: string; state: string }) => [type, state]);
      assert.deepEqual(types, [
        ['STARTED', 'RUNNING'],
        ['RECLAIMED', 'PENDING'],
      ]);
      await checkInvariants(service.dataSource);
    });

    test('is refused when it reports late, and changes nothing, while the run waits and when another has it', async () => {
      const { id } = await steps.running({ event_delivery: { topic: 'losses' } }, 'late');
      await until(
        () => steps.get(id),
        ({ state }) => state === 'PENDING',
      );
      const late = [
        { type: 'STARTED', msg: '', payload: { worker_id: 'late' } },
        { type: 'PROGRESS', msg: 50 },
        { type: 'COMPLETED', msg: '', payload: { outputs: { a: 1 } } },
        { type: 'FAILED', msg: '', payload: { error_message: 'no' } },
        { type: 'NOTE', msg: '' },
      ];
      const check = async (): Promise<void> => {
        const earlier = await wire(id);
        for (const event of late) {
          const answer = await steps.report(id, event, { worker: 'late', attempt: 1 });
          assertError(answer, 409, `Run '${id}' is not assigned to worker 'late'`);
          assert.equal(await wire(id), earlier);
        }
      };
      await check();
      await steps.heartbeat('other');
      await steps.claimUntil(id, 'other');
      await check();
      // It may have claimed the very run again: then its old attempt is what gives it away.
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
      await steps.heartbeat('late');
      await steps.claimUntil(id, 'late');
      const earlier = await wire(id);
      for (const event of late) {
        const answer = await steps.report(id, event, { worker: 'late', attempt: 1 });
        assertError(answer, 409, `Run '${id}' attempt 1 is not current`);
      }
      assert.equal(await wire(id), earlier);
    });
  });

  describe('two processes whose reapers race', { concurrent: false }, () => {
    const env = { ...ENV, SERVICE_REAPER_INTERVAL: '0.05', SERVICE_WORKER_POOL: 'shared' };
    const database = useTestDatabase();
    const first = useTestApp(() => ({ database, env }));
    let second: TestApp;
    let sides: readonly [RunSteps, RunSteps];

    beforeAll(async () => {
      second = await startTestApp({ database, env });
      sides = [new RunSteps(first.send), new RunSteps(second.send)];
    });
    afterAll(async () => {
      await second.close();
    });

    test('keep a run whose worker heartbeats in time, whichever process it talks to, through a restart of one', async () => {
      const end = beat(sides, 'well');
      const { id } = await sides[0].running({}, 'well');
      const { id: lost } = await sides[1].running({}, 'lost');
      await until(
        () => sides[0].get(lost),
        ({ state }) => state === 'PENDING',
      );
      await end();
      const endHere = beat([sides[0]], 'well');
      await second.close();
      second = await startTestApp({ database, env });
      sides = [sides[0], new RunSteps(second.send)];
      await endHere();
      const endAgain = beat(sides, 'well');
      await until(
        () => reaperWord(second),
        (word) => word === 'ok',
      );
      await sleep(TIMEOUT_S * 500);
      await endAgain();
      const kept = await sides[1].get(id);
      assert.deepEqual([kept.state, kept.current_attempt], ['RUNNING', 1]);
      assert.equal((await sides[1].get(lost)).execution_summary.reclaims, 1);
    });
  });
});
