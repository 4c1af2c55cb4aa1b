import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { until } from '../../support/app/passing-time.js';
import { KEYS, type TestApp } from '../../support/app/test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const RAM_MB = 4096;
const RESOURCES = { cpu_cores: 4, ram_mb: RAM_MB, gpus: [{ id: 0, vram_mb: 1000, tags: [] }] };
const LARGE = { constraints: { ram_mb: RAM_MB, cpu: 1 } };

/** Worker ids of one application. */
let workers = 0;

function scenesOf(service: TestApp) {
  const steps = new RunSteps(service.send);

  /** A worker with a run in execution that has all of its memory, and another one that wants as much. */
  async function scene(options: Readonly<Record<string, unknown>> = {}) {
    workers += 1;
    const worker = `ending-${workers}`;
    const own = { selector: [worker], ...LARGE, ...options };
    const capabilities = ['container', 'gpus', 'stop_grace:900'];
    const beat = async (running: readonly string[], ending: readonly string[] = []) => {
      const { status, body, text } = await service.send('POST', '/workers/heartbeat', {
        body: {
          worker_id: worker,
          resources: RESOURCES,
          tags: [worker],
          capabilities,
          running_ops: running.map((id) => ({ id, attempt: 1, image: 'i', inputs: {}, constraints: {} })),
          ending_ops: ending.map((id) => ({ id, attempt: 1 })),
        },
      });
      assert.equal(status, 200, text);
      return body;
    };
    await beat([]);
    const { id: first } = await steps.create(own);
    const claimed = async (): Promise<string[]> => (await steps.claim(worker)).map(({ id }) => id);
    assert.deepEqual(await claimed(), [first]);
    await steps.event(first, 'STARTED', { worker_id: worker });
    await beat([first]);
    const { id: second } = await steps.create(own);
    const cancel = (body?: object, key?: string) =>
      service.send('POST', `/runs/${first}/cancel`, {
        ...(body && { body }),
        ...(key !== undefined && { key }),
      });
    return { worker, first, second, beat, claimed, cancel };
  }

  return { steps, scene };
}

describe('the program of a run that was cancelled', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit' } });
  const { steps, scene } = scenesOf(service);

  const freeOf = async (worker: string) => {
    const { body } = await service.send('GET', '/workers');
    return body.find(({ id }: { id: string }) => id === worker);
  };

  test('keeps its resources, and no other run gets them, until its worker no longer names it', async () => {
    const { worker, first, second, beat, claimed, cancel } = await scene({ stop_grace_s: 900 });
    assert.equal((await cancel()).status, 200);
    assert.deepEqual(await claimed(), [], 'before the worker knows');
    const { lost_ops: lost } = await beat([first]);
    assert.deepEqual(
      lost.map(({ id }: { id: string }) => id),
      [first],
    );
    for (let n = 0; n < 2; n += 1) await beat([], [first]);
    assert.deepEqual(await claimed(), [], 'while the program ends');
    const { free, assigned } = await freeOf(worker);
    assert.deepEqual([free.ram_mb, free.cpu_millis, assigned], [0, 3000, { count: 0, ids: [] }]);
    const { body } = await service.send('GET', `/runs/${second}/explain`);
    assert.deepEqual(body.workers[0].ending, { programs: 1, cpu_millis: 1000, ram_mb: RAM_MB, gpus: 0 });
    assert.match(
      body.summary,
      /; 1 worker could take it, but none of them now; 1 ending program of an ended run holds 1 CPU, 4,096 MB of RAM\.$/,
    );
    await beat([]);
    assert.equal((await freeOf(worker)).free.ram_mb, RAM_MB);
    assert.deepEqual(await claimed(), [second]);
  });

  test('is told to a worker that is to kill it, whatever else the worker names', async () => {
    const { first, beat, cancel } = await scene();
    await cancel({ kill: true });
    assert.deepEqual((await beat([], ['no run', first])).kill_ops, [{ id: first, attempt: 1 }]);
  });

  test('wakes a claim that waits when its end is told', async () => {
    const { worker, first, second, beat, cancel } = await scene();
    await cancel();
    await beat([], [first]);
    const waiting = service.send('POST', `/workers/${worker}/claim?wait=20`);
    await beat([]);
    const { body } = await waiting;
    assert.deepEqual(
      body.ops.map(({ id }: { id: string }) => id),
      [second],
    );
  });

  test('of an earlier attempt is forgotten while the worker executes a later one', async () => {
    const { worker, first, beat, cancel } = await scene();
    await service.send('POST', `/runs/${first}/retry`);
    const later = { id: first, attempt: 2, image: 'i', inputs: {}, constraints: {} };
    const body = { worker_id: worker, resources: RESOURCES, tags: [worker], running_ops: [later] };
    // A heartbeat before the notice of the retry leaves it to the next one. Attempt 1 is not named.
    await until(
      async () => {
        await service.send('POST', '/workers/heartbeat', { body });
        return freeOf(worker);
      },
      ({ free }) => free.ram_mb === RAM_MB,
    );
    await cancel();
    await beat([]);
  });

  test("is killed by an admin's second cancel, which its worker is told until it has ended", async () => {
    const { first, beat, cancel } = await scene({ stop_grace_s: 900 });
    assert.equal((await cancel({ reason: 'wrong' })).status, 200);
    await beat([], [first]);
    const again = await cancel();
    assert.deepEqual([again.status, again.body.detail], [400, 'Run is already in terminal state CANCELLED']);
    assert.equal((await beat([], [first])).kill_ops, undefined);
    const killed = await cancel({ kill: true });
    assert.deepEqual([killed.status, killed.body.state, killed.body.id], [200, 'CANCELLED', first]);
    for (let n = 0; n < 2; n += 1)
      assert.deepEqual((await beat([], [first])).kill_ops, [{ id: first, attempt: 1 }]);
    const { text: audit } = await service.send('GET', '/audit?limit=5');
    assert.match(audit, new RegExp(`"run.kill","subject":"${first}"`));
    await beat([]);
    const late = await cancel({ kill: true });
    assert.deepEqual([late.status, late.body.detail], [400, 'Run is already in terminal state CANCELLED']);
  });

  test('is killed at once by a first cancel with kill, which ends a held heartbeat', async () => {
    const { worker, first, second, beat, cancel } = await scene();
    assert.equal((await cancel()).status, 200);
    await beat([], [first]);
    const held = service.send('POST', '/workers/heartbeat?wait=20', {
      body: {
        worker_id: worker,
        resources: RESOURCES,
        tags: [worker],
        running_ops: [],
        ending_ops: [{ id: first, attempt: 1 }],
      },
    });
    assert.equal((await cancel({ kill: true })).status, 200);
    assert.deepEqual((await held).body.kill_ops, [{ id: first, attempt: 1 }]);
    const pending = await service.send('POST', `/runs/${second}/cancel`, { body: { kill: true } });
    assert.deepEqual([pending.status, pending.body.state], [200, 'CANCELLED'], 'a run without a program');
  });

  test('is not killed by a client key, and a value of another form is refused', async () => {
    const { first, beat, cancel } = await scene();
    const refused = await cancel({ kill: true }, KEYS.client);
    assert.equal(refused.status, 403, refused.text);
    assert.equal((await cancel({ kill: 'yes' })).status, 400);
    const { body: run } = await service.send('GET', `/runs/${first}`);
    assert.equal(run.state, 'RUNNING', 'nothing has changed');
    assert.equal((await cancel({ kill: true })).status, 200);
    assert.deepEqual((await beat([], [first])).kill_ops, [{ id: first, attempt: 1 }]);
  });

  test('has no longer grace than its worker allows: the run goes to others', async () => {
    const { worker } = await scene();
    const run = await steps.create({ selector: [worker], stop_grace_s: 3600 });
    const { body } = await until(
      () => service.send('GET', `/runs/${run.id}/explain`),
      ({ status }) => status === 200,
    );
    assert.deepEqual(body.requirements.capabilities, ['container', 'stop_grace:3600']);
    assert.match(body.summary, /no active worker announces the capability stop_grace:3600/);
    for (const [seconds, needed] of [
      [300, ['container']],
      [301, ['container', 'stop_grace:900']],
      [900, ['container', 'stop_grace:900']],
      [901, ['container', 'stop_grace:1800']],
    ] as const) {
      const { id } = await steps.create({ selector: [worker], stop_grace_s: seconds });
      const explained = await service.send('GET', `/runs/${id}/explain`);
      assert.deepEqual(explained.body.requirements.capabilities, needed, `${seconds} seconds`);
    }
  });
});

describe('with the strategy direct, the program of a run that was cancelled', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'direct' } });
  const { scene } = scenesOf(service);

  test('is named by the explanation of a run that waits at its worker', async () => {
    const { worker, first, second, beat, claimed, cancel } = await scene();
    await cancel();
    await beat([], [first]);
    assert.deepEqual(await claimed(), [second]);
    await beat([second], [first]);
    const { body } = await service.send('GET', `/runs/${second}/explain`);
    assert.deepEqual(body.holder.ending, { programs: 1, cpu_millis: 1000, ram_mb: RAM_MB, gpus: 0 });
    assert.equal(
      body.summary,
      `Assigned to worker '${worker}', which is active; 1 ending program of an ended run holds 1 CPU, 4,096 MB of RAM there.`,
    );
    await beat([second]);
    const { body: after } = await service.send('GET', `/runs/${second}/explain`);
    assert.equal(after.holder.ending, null);
  });
});
