import assert from 'node:assert/strict';
import { test } from 'vitest';
import { DOWN } from '../fake-service.js';
import { makeHarness, startedRun, type HarnessOptions } from '../worker-harness.js';

const idleFor = (seconds: number): HarnessOptions => ({
  env: { SERVICE_WORKER_EXIT_IDLE: String(seconds), SERVICE_WORKER_TICK: '1' },
});

test('ends with exit code 0 when it has had no run for SERVICE_WORKER_EXIT_IDLE seconds, and is gone from the service', async () => {
  const harness = makeHarness(idleFor(30));
  const { clock, service } = harness;
  await harness.start();
  await clock.pass(25_000);
  assert.equal(harness.exitCode(), null);
  await clock.pass(10_000);
  assert.equal(harness.exitCode(), 0);
  assert.equal(service.callsOf('removeWorker').length, 1);
});

test('counts the idle time from the end of its last run, which it does not interrupt', async () => {
  const { harness, clock, run, container } = await startedRun(idleFor(30));
  await clock.pass(120_000);
  assert.deepEqual([run.state, harness.exitCode()], ['RUNNING', null]);
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await clock.pass(25_000);
  assert.equal(harness.exitCode(), null);
  await clock.pass(30_000);
  assert.equal(harness.exitCode(), 0);
});

test('executes a run that its last claim gets', async () => {
  const harness = makeHarness(idleFor(30));
  const { clock, service } = harness;
  await harness.start();
  await clock.pass(29_000);
  const run = service.add('run-1');
  await harness.untilState(run, 'RUNNING');
  await clock.pass(60_000);
  assert.deepEqual([run.state, harness.exitCode()], ['RUNNING', null]);
});

test('does not end while the service has not answered its claim, which may have got a run', async () => {
  const harness = makeHarness(idleFor(5));
  const { clock, service } = harness;
  service.onCall = ({ what }) => (what === 'claim' ? DOWN : undefined);
  await harness.start();
  await clock.pass(60_000);
  assert.equal(harness.exitCode(), null);
});

test('claims no more runs than SERVICE_WORKER_MAX_TOTAL, executes them to their ends, and ends with exit code 0', async () => {
  const harness = makeHarness({ env: { SERVICE_WORKER_MAX_TOTAL: '2', SERVICE_WORKER_DRAIN: '1' } });
  const [first, second, third] = ['run-1', 'run-2', 'run-3'].map((id) => harness.service.add(id));
  assert.ok(first && second && third);
  await harness.start();
  await harness.container(1);
  await harness.clock.pass(120_000);
  assert.deepEqual([first.state, second.state, third.state], ['RUNNING', 'RUNNING', 'PENDING']);
  for (const container of harness.runtime.containers) container.end(0);
  await harness.clock.until('the worker ends', () => harness.exitCode() !== null, 50);
  assert.deepEqual(
    [harness.exitCode(), first.state, second.state, third.state],
    [0, 'COMPLETED', 'COMPLETED', 'PENDING'],
  );
});
