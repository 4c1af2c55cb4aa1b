import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it, test } from 'vitest';
import { EngineFault, RunFault } from '../../runtime/runtime.js';
import type { FakeContainer } from '../fake-runtime.js';
import { makeHarness, startedRun, type WorkerHarness } from '../worker-harness.js';

describe('the cause that FAILED reports', () => {
  const cases: [string, string, number | undefined, (harness: WorkerHarness) => void][] = [
    [
      'a container that ends with another exit code than 0',
      'exit',
      75,
      ends((container) => container.end(75)),
    ],
    ['a container that reaches its memory limit', 'oom', 137, ends((container) => container.end(137, true))],
    ['outputs that are no JSON object', 'error', undefined, ends(badOutputs)],
    ['an image that does not exist', 'image', undefined, pulls(new RunFault('no', { reported: 'image' }))],
    ['a registry that is unreachable', 'infrastructure', undefined, pulls(new Error('no route'))],
    ['an engine that is away', 'infrastructure', undefined, pulls(new EngineFault('away'))],
    [
      'a container that cannot be started here',
      'infrastructure',
      undefined,
      starts(new EngineFault('no bridge')),
    ],
    ['a command that no machine can execute', 'error', undefined, starts(new RunFault('no command'))],
    ['a GET of the run that is refused', 'error', undefined, refusesRun],
  ];
  for (const [title, cause, exitCode, prepare] of cases) {
    it(`is ${cause} after ${title}`, async () => {
      const harness = makeHarness();
      prepare(harness);
      const run = await harness.execute('FAILED');
      const payload = run.timeline.at(-1)?.payload ?? {};
      assert.equal(payload['cause'], cause);
      assert.equal(payload['exit_code'], exitCode);
      assert.equal(typeof payload['error_message'], 'string');
    });
  }

  it('is infrastructure when the worker shuts down, because another worker could execute the run', async () => {
    const { harness, run } = await startedRun({ env: { SERVICE_WORKER_DRAIN: '1' } });
    await harness.end();
    assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
  });
});

describe('a failure of the engine', () => {
  it('pauses claims until a probe succeeds, while heartbeats go on', async () => {
    const harness = makeHarness({ env: { SERVICE_WORKER_MAX_RUNS: '1' } });
    const { clock, runtime, service, log } = harness;
    runtime.onStart = runtime.onProbe = throws(new EngineFault('no bridge'));
    const runs = Array.from({ length: 5 }, (_, n) => service.add(`run-${n}`));
    await harness.start();
    await clock.pass(600_000);
    const touched = runs.filter(({ timeline }) => timeline.length > 0);
    assert.equal(touched.length, 1, 'the first failure is the last');
    assert.ok(runtime.probes > 15 && runtime.probes < 40, `${runtime.probes} probes in 10 minutes`);
    assert.ok(service.callsOf('heartbeat').length >= 60);
    assert.equal(log.filter((line) => line.includes('no claims until a probe succeeds')).length, 1);

    runtime.onProbe = async () => undefined;
    runtime.onStart = (container) => container.end(0);
    for (const run of runs.slice(1)) await harness.untilState(run, 'COMPLETED');
    assert.ok(log.some((line) => line.includes('claiming again')));
  });

  it('that the probe does not show is met again after ever longer pauses, until a container has run', async () => {
    const harness = makeHarness();
    const { clock, runtime, service } = harness;
    runtime.onStart = throws(new EngineFault('disk full'));
    const run = service.add('run-1', { maxAttempts: 1000 });
    await harness.start();
    await clock.pass(600_000);
    assert.ok(run.failures > 10 && run.failures < 45, `${run.failures} failures in 10 minutes`);
    runtime.onStart = (container) => container.end(0);
    await harness.untilState(run, 'COMPLETED');

    runtime.onStart = (container) => {
      if (container.spec.image === 'broken') throw new EngineFault('disk full');
      container.end(0);
    };
    const failing = service.add('run-2', { image: 'broken' });
    await harness.untilState(failing, 'FAILED');
    const before = clock.nowMs();
    await harness.untilState(service.add('run-3'), 'COMPLETED');
    assert.ok(clock.nowMs() - before < 3000, `${clock.nowMs() - before} ms`);
  });

  it('is told to the service with its newest reason, until a probe succeeds', async () => {
    const harness = makeHarness();
    const { clock, runtime, service } = harness;
    const told = () => service.callsOf('heartbeat').at(-1)?.report?.notClaiming;
    const full = "the engine's disk is full";
    runtime.onStart = throws(new EngineFault(full));
    runtime.onProbe = throws(new Error('/var/lib/secret-path'));
    const run = service.add('run-1');
    await harness.start();
    assert.deepEqual(told(), []);
    await harness.untilState(run, 'FAILED');
    await clock.until('the reason is told', () => told()?.length === 1, 20);
    await clock.pass(60_000);
    assert.deepEqual(told(), [{ reason: 'disk_full', message: full }]);
    runtime.onProbe = throws(new EngineFault('no\0  answer'));
    await clock.until('the newer reason is told', () => told()?.[0]?.reason === 'engine_paused', 20);
    assert.deepEqual(told(), [{ reason: 'engine_paused', message: 'no answer' }]);
    runtime.onProbe = async () => undefined;
    await clock.until('no reason is told', () => told()?.length === 0, 20);
    runtime.onStart = () => undefined;
    const next = service.add('run-2');
    await harness.untilState(next, 'RUNNING');
    const ended = harness.end();
    await clock.until('the shutdown is told', () => told()?.[0]?.reason === 'draining', 20);
    runtime.containers.at(-1)?.end(0);
    assert.equal(await ended, 0);
  });

  it('does not delay a shutdown', async () => {
    const harness = makeHarness();
    harness.runtime.onStart = harness.runtime.onProbe = throws(new EngineFault('no bridge'));
    await harness.execute('FAILED');
    await harness.clock.pass(100_000);
    const before = harness.clock.nowMs();
    assert.equal(await harness.end(), 0);
    assert.ok(harness.clock.nowMs() - before < 5000);
  });
});

describe('a run that is cancelled while its container is created', () => {
  it('is not executed, and the worker searches for what is left of it from time to time', async () => {
    const harness = makeHarness();
    const { clock, runtime, service } = harness;
    const run = service.add('run-1');
    const creating = new AbortController();
    runtime.onStart = () => once(creating.signal, 'abort').then(() => undefined);
    await harness.start();
    await clock.until('the container is being created', () => runtime.containers.length === 1, 1000);
    run.state = 'CANCELLED';
    await clock.pass(30_000);
    creating.abort();
    await clock.pass(1_000);
    assert.equal(runtime.refused, 1);
    const before = runtime.leftoversRemoved;
    await clock.pass(180_000);
    assert.equal(runtime.leftoversRemoved - before, 3);
  });
});

describe('containers of the same worker id that another process started', () => {
  it('stay while the service counts their attempts as this worker id’s, and go after that', async () => {
    const harness = makeHarness();
    const { clock, runtime, service } = harness;
    const run = service.add('run-1', { state: 'RUNNING', workerId: 'rack/7:a', attempt: 2 });
    runtime.abandoned = [
      ['run-1', 2],
      ['unknown', 1],
    ];
    await harness.start();
    await clock.pass(60_000);
    assert.equal(runtime.abandoned.length, 2);
    assert.equal(harness.log.filter((line) => line.includes('another process runs containers')).length, 1);
    Object.assign(run, { state: 'PENDING', workerId: null, attempt: 3 });
    await clock.until('the lost one is removed', () => runtime.abandoned.length === 1, 1000);
    assert.deepEqual(runtime.abandoned, [['unknown', 1]]);
  });
});

function throws(error: Error) {
  return async (): Promise<never> => {
    throw error;
  };
}

function ends(end: (container: FakeContainer) => void) {
  return ({ runtime }: WorkerHarness): void => {
    runtime.onStart = end;
  };
}

function pulls(error: Error) {
  return ({ runtime }: WorkerHarness): void => {
    runtime.onPull = throws(error);
  };
}

function starts(error: Error) {
  return ({ runtime }: WorkerHarness): void => {
    runtime.onStart = throws(error);
  };
}

function badOutputs(container: FakeContainer): void {
  container.writeOutputs('[]');
  container.end(0);
}

function refusesRun({ service }: WorkerHarness): void {
  service.onCall = ({ what }) =>
    what === 'getRun' ? { kind: 'refused', status: 404, detail: 'no' } : undefined;
}

for (const [what, answer] of [
  ['a proxy', { kind: 'unreachable', reason: "HTTP 404 that is not the service's", status: 404 }],
  [
    'the service, for another path',
    { kind: 'refused', status: 404, detail: 'Cannot POST /workers/a/b/claim' },
  ],
] as const) {
  test(`ends with a message when claims get 404 for ever from ${what}, and keeps on through some`, async () => {
    const harness = makeHarness();
    const { clock, service, worker } = harness;
    let isMissed = true;
    service.onCall = ({ what: call }) => (call === 'claim' && isMissed ? answer : undefined);
    await harness.start();
    await clock.pass(30_000);
    isMissed = false;
    await clock.pass(30_000);
    isMissed = true;
    await clock.pass(50_000);
    assert.equal(harness.exitCode(), null);
    await clock.until('the worker ends', () => harness.exitCode() !== null, 1_000);
    assert.equal(harness.exitCode(), 1);
    assert.ok(harness.log.some((line) => line.includes('claims get 404 although heartbeats are accepted')));
    worker.shutDown();
  });
}
