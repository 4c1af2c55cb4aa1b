import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'vitest';
import { PLAIN } from '../fake-service.js';
import { startedRun, type HarnessOptions } from '../worker-harness.js';

const HOUR: Pick<typeof PLAIN, 'stop_grace_s'> = { stop_grace_s: 3600 };

/** A worker with a run whose program ends by SIGKILL alone, and the graces that its container was given. */
async function deafRun(options?: HarnessOptions) {
  const started = await startedRun(options, { container: { ...PLAIN, ...HOUR } });
  const graces: number[] = [];
  const { container, service } = started;
  const killed = new AbortController();
  const end = once(killed.signal, 'abort');
  container.stop = async (graceSeconds) => {
    graces.push(graceSeconds);
    if (graceSeconds === 0) killed.abort();
    await end;
  };
  const ending = () => service.callsOf('heartbeat').at(-1)?.report?.endingOps;
  return { ...started, graces, ending };
}

test('names a cancelled run as ending until its program has ended, and kills that when it is told', async () => {
  const { clock, service, run, container, graces, ending } = await deafRun();
  run.state = 'CANCELLED';
  await clock.until('the run is named as ending', () => ending()?.length === 1, 20);
  await clock.pass(120_000);
  assert.deepEqual([ending(), graces], [[{ id: 'run-1', attempt: 1 }], [3600]]);
  assert.deepEqual(service.callsOf('heartbeat').at(-1)?.report?.runningOps, []);
  service.killed.add('run-1');
  await clock.until('the container is removed', () => container.removed, 20);
  assert.deepEqual(graces, [3600, 0]);
  await clock.until('the end is told', () => ending()?.length === 0, 20);
});

test('keeps the resources of an ending program from the runs that it has claimed', async () => {
  const { clock, harness, service, run, container, ending } = await deafRun({ resources: { cpuCores: 1 } });
  run.state = 'CANCELLED';
  await clock.until('the run is named as ending', () => ending()?.length === 1, 20);
  const next = service.add('run-2');
  await clock.pass(60_000);
  assert.equal(next.state, 'PENDING');
  service.killed.add('run-1');
  await clock.until('the container is removed', () => container.removed, 20);
  await harness.untilState(next, 'RUNNING');
});

test('waits for the program of a cancelled run no longer than its drain time when it shuts down', async () => {
  const { clock, worker, harness, run, container, graces, ending } = await deafRun();
  run.state = 'CANCELLED';
  await clock.until('the run is named as ending', () => ending()?.length === 1, 20);
  const stoppedMs = clock.nowMs();
  worker.shutDown();
  await clock.until('the worker ends', () => harness.exitCode() !== null, 400);
  assert.deepEqual([harness.exitCode(), container.removed, graces], [0, true, [3600, 0]]);
  assert.ok(clock.nowMs() - stoppedMs < 60_000, `${clock.nowMs() - stoppedMs} ms`);
});
