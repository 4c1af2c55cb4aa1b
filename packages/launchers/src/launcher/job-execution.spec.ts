import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { EngineFault, RunFault } from '@longshore/worker/runtime/runtime';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { carriedOptions } from '@longshore/worker/service-api/service-api';
import { eventTypes, PLAIN } from '@longshore/worker/testing/fake-service';
import { jobSpec } from '../testing/job-spec.js';
import { LauncherHarness, running, submitted } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const CONSTRAINTS = { ...NO_CONSTRAINTS, ramMb: 100, cpuMillis: 2000, cpuLimitMillis: 2000 };
const RUNNING: JobStatus = { kind: 'running' };
const WAITING: JobStatus = { kind: 'pending', reason: 'Unschedulable' };

describe('a job of a launcher', () => {
  it('is reported with the times of its container, also when the launcher sees its end late', async () => {
    const harness = new LauncherHarness();
    const { service, cluster } = harness;
    const run = service.add('run-1');
    await harness.start();
    await harness.untilSubmitted('run-1');
    const startedAt = '2026-05-04T10:00:00.000Z';
    const finishedAt = '2026-05-04T10:00:09.000Z';
    cluster.job('run-1').times = { startedAt, finishedAt: null };
    cluster.set('run-1', RUNNING);
    await harness.untilState(run, 'RUNNING');
    cluster.job('run-1').times = { startedAt, finishedAt };
    cluster.exit('run-1', 3);
    await harness.untilState(run, 'FAILED');
    const started = run.timeline.find(({ type }) => type === 'STARTED');
    assert.equal(started?.payload?.['started_at'], startedAt);
    const { type, payload } = run.timeline.at(-1) ?? {};
    assert.deepEqual(
      [type, payload?.['started_at'], payload?.['finished_at']],
      ['FAILED', startedAt, finishedAt],
    );
  });

  it('is submitted with all that the run needs, followed to its end, reported and removed', async () => {
    const harness = new LauncherHarness();
    const { service, cluster } = harness;
    const run = service.add('run-1', {
      inputs: { n: 1 },
      outputs: { template: true },
      selector: ['gpu-pool'],
      constraints: CONSTRAINTS,
      container: {
        ...PLAIN,
        env: { A: 'b' },
        command: ['run'],
        args: ['-x'],
        secrets: { T: 't' },
        image_pull_secret: 'p',
      },
    });
    const login = { server: 'ghcr.io', username: 'bot', password: 'pw' };
    service.secrets = { env: { T: 'secret-value' }, files: {}, registry: login };
    const launcher = await harness.start();
    await harness.untilSubmitted('run-1');
    const { spec, engineId } = cluster.job('run-1');
    assert.deepEqual(spec, {
      ...carriedOptions(PLAIN),
      runId: 'run-1',
      attempt: 1,
      image: 'example/image:1',
      inputs: { n: 1 },
      outputTemplate: { template: true },
      constraints: CONSTRAINTS,
      selector: ['gpu-pool'],
      env: { A: 'b' },
      secrets: { T: 'secret-value' },
      command: ['run'],
      args: ['-x'],
      files: [],
      registry: login,
      trace: null,
      memo: { signedQueries: [], notes: [] },
      artifacts: null,
      signedFiles: null,
    });
    await harness.clock.pass(1_000);
    assert.equal(run.state, 'ASSIGNED');
    cluster.print('run-1', 'begin', '{"type":"NOTE","msg":"has secret-value"}');
    cluster.set('run-1', RUNNING);
    await harness.untilState(run, 'RUNNING');
    cluster.job('run-1').outputs = { sum: 3 };
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'NOTE', 'COMPLETED']);
    assert.deepEqual(run.timeline[0]?.payload, { engine: 'kubernetes', engine_id: engineId });
    assert.equal(run.timeline[2]?.msg, 'has ***');
    assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { sum: 3 } });
    assert.deepEqual(service.logs.texts('run-1'), ['begin', '{"type":"NOTE","msg":"has ***"}', '<end>']);
    assert.equal(await harness.end(launcher), 0);
  });

  it('has its reason for waiting on the timeline, and a new one at most every ten seconds', async () => {
    const { harness, clock, cluster, run } = await submitted();
    await clock.pass(100);
    cluster.set('run-1', WAITING);
    await clock.pass(5_000);
    assert.deepEqual(eventTypes(run), ['SUBMITTED']);
    await clock.pass(6_000);
    assert.equal(run.timeline[1]?.payload?.['reason'], 'Unschedulable');
    for (let n = 0; n < 3_000; n++) {
      cluster.set('run-1', { kind: 'pending', reason: `reason ${n}` });
      await clock.pass(1_000);
    }
    assert.ok(run.timeline.length < 25, `${run.timeline.length} events in an hour`);
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
    assert.deepEqual(eventTypes(run).slice(-2), ['STARTED', 'COMPLETED']);
  });

  it('says once that a node prepares it, if the run must start in time', async () => {
    const harness = new LauncherHarness();
    const { service, cluster, clock } = harness;
    const runs = ['urgent', 'patient'].map((id) => service.add(id, { mustStartInTime: id === 'urgent' }));
    await harness.start();
    for (const { id } of runs) {
      await harness.untilSubmitted(id);
      for (const reason of ['ContainerCreating', 'Pulling'])
        cluster.set(id, { kind: 'pending', reason, isPlaced: true });
    }
    await clock.pass(1_000);
    const [urgent, patient] = runs.map((run) => eventTypes(run));
    assert.deepEqual(
      urgent?.filter((type) => type === 'PREPARING'),
      ['PREPARING'],
    );
    assert.ok(!patient?.includes('PREPARING'));
  });

  const ENDS: readonly [string, JobStatus, object][] = [
    ['an exit code', { kind: 'exited', exitCode: 7, outOfMemory: false }, { cause: 'exit', exit_code: 7 }],
    [
      'the memory limit',
      { kind: 'exited', exitCode: 137, outOfMemory: true },
      { cause: 'oom', exit_code: 137 },
    ],
    ['its image', { kind: 'failed', cause: 'image', message: 'no such image' }, { cause: 'image' }],
    [
      'a lost node',
      { kind: 'failed', cause: 'infrastructure', message: 'node lost' },
      { cause: 'infrastructure' },
    ],
  ];
  for (const [what, status, expected] of ENDS) {
    it(`fails by ${what} with the cause`, async () => {
      const { harness, cluster, run } = await submitted();
      cluster.set('run-1', status);
      await harness.untilState(run, 'FAILED');
      const { error_message: message, ...payload } = run.timeline.at(-1)?.payload ?? {};
      assert.deepEqual(payload, expected);
      assert.notEqual(message, '');
      await harness.untilEmpty();
    });
  }

  it('that the engine does not have any more is a failure of the infrastructure', async () => {
    const { harness, cluster, run } = await running();
    cluster.vanish('run-1');
    await harness.untilState(run, 'FAILED');
    assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
  });

  it('goes on through an outage of the engine, without an event', async () => {
    const { harness, clock, cluster, run } = await running();
    cluster.isDown = true;
    cluster.exit('run-1');
    await clock.pass(3_600_000);
    assert.equal(run.state, 'RUNNING');
    assert.deepEqual(harness.listed(), ['run-1']);
    cluster.isDown = false;
    cluster.changed();
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
  });

  it('is submitted again until the engine takes it, with claims paused, and is one job when an answer was lost', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    let tries = 0;
    cluster.onSubmitted = () => {
      tries += 1;
      if (tries < 4) throw new EngineFault('no answer');
    };
    const run = service.add('run-1');
    await harness.start();
    await clock.until('a second try', () => tries === 2, 20);
    const claims = service.callsOf('claim').length;
    service.add('run-2');
    await clock.pass(100);
    assert.ok(service.callsOf('claim').length <= claims + 1);
    await clock.until('the submission is accepted', () => tries >= 4, 100);
    assert.equal(cluster.submitted.filter((name) => name === 'run-1/1').length, 1);
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.untilSubmitted('run-2');
  });

  it('that no engine could execute fails the run', async () => {
    const harness = new LauncherHarness();
    harness.cluster.onSubmit = () => {
      throw new RunFault('the inputs are too large');
    };
    const run = harness.service.add('run-1');
    await harness.start();
    await harness.untilState(run, 'FAILED');
    assert.deepEqual(run.timeline.at(-1)?.payload, {
      error_message: 'the inputs are too large',
      cause: 'error',
    });
  });

  it('of a cancelled run is ended, and nothing is reported', async () => {
    const { harness, cluster, run } = await running();
    run.state = 'CANCELLED';
    await harness.untilEmpty();
    assert.deepEqual(cluster.removals, ['run-1/1']);
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED']);
  });

  it('of a run that was cancelled during the submission is removed after it', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    cluster.onSubmitted = () => clock.sleep(5_000);
    const run = service.add('run-1');
    await harness.start();
    await harness.untilSubmitted('run-1');
    run.state = 'CANCELLED';
    await harness.untilEmpty();
    assert.ok(eventTypes(run).every((type) => type === 'SUBMITTED'));
  });

  it('begins only after the job of another attempt has ended, whoever submitted it', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    cluster.add(jobSpec({ runId: 'run-1', attempt: 1 }), 'another');
    cluster.onRemove = () => clock.sleep(20_000);
    service.add('run-1', { attempt: 2 });
    await harness.start();
    await clock.pass(10_000);
    assert.deepEqual(cluster.submitted, ['run-1/1']);
    await harness.untilSubmitted('run-1', 2);
    assert.ok(!cluster.jobs.has('run-1/1'));
  });

  it('is removed before the report when its container may still run, and after it when it has exited', async () => {
    for (const hasExited of [false, true]) {
      const harness = new LauncherHarness();
      const { cluster, service } = harness;
      const run = service.add('run-1');
      let stateAtRemoval = '';
      cluster.onRemove = async () => {
        stateAtRemoval = run.state;
      };
      await harness.start();
      await harness.untilSubmitted('run-1');
      if (hasExited) cluster.exit('run-1', 3);
      else cluster.set('run-1', { kind: 'failed', cause: 'infrastructure', message: 'node lost' });
      await harness.untilState(run, 'FAILED');
      await harness.untilEmpty();
      assert.equal(stateAtRemoval, hasExited ? 'FAILED' : 'ASSIGNED');
    }
  });
});
