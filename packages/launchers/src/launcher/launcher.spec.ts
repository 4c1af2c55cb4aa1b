import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { eventTypes } from '@longshore/worker/testing/fake-service';
import { LauncherHarness, running, submitted } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const RUNNING: JobStatus = { kind: 'running' };

describe('a launcher', () => {
  it('reports what the cluster could give, and the counts of its jobs', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    await harness.start({ env: { SERVICE_WORKER_TAGS: 'own' } });
    service.add('run-1');
    service.add('run-2');
    await harness.untilSubmitted('run-2');
    cluster.set('run-1', RUNNING);
    cluster.resources = { cpuCores: 3.9, ramMb: 10, gpus: [] };
    await clock.pass(60_000);
    const report = service.callsOf('heartbeat').at(-1)?.report;
    assert.deepEqual(report?.load, { name: 'kubernetes', pending: 1, running: 1 });
    assert.deepEqual(report.resources, { cpuCores: 3, ramMb: 10, gpus: [] });
    assert.deepEqual(report.tags, ['own', 'gpu-pool']);
  });

  it('claims nothing while as many jobs wait as it may have', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    const runs = Array.from({ length: 8 }, (_, n) => service.add(`run-${n}`));
    await harness.start({ env: { SERVICE_WORKER_MAX_PENDING: '3' } });
    await clock.pass(60_000);
    assert.equal(cluster.jobs.size, 3);
    const claims = service.callsOf('claim').map(({ max }) => max);
    assert.deepEqual(claims.slice(0, 3), [3, 2, 1]);
    assert.equal(runs.filter(({ state }) => state === 'PENDING').length, 5);
    cluster.set('run-0', RUNNING);
    await harness.untilSubmitted('run-3');
    await clock.pass(60_000);
    assert.equal(cluster.jobs.size, 4);
  });

  it('leaves its jobs at a shutdown and reports nothing, and the next process with its id goes on with them', async () => {
    const { harness, clock, cluster, service, run, launcher: first } = await submitted();
    cluster.print('run-1', 'one');
    cluster.set('run-1', RUNNING);
    await harness.untilState(run, 'RUNNING');
    const before = clock.nowMs();
    assert.equal(await harness.end(first), 0);
    assert.ok(clock.nowMs() - before < 2_000, `${clock.nowMs() - before} ms`);
    assert.equal(cluster.jobs.size, 1);
    await harness.start();
    assert.deepEqual(harness.listed(), ['run-1']);
    cluster.print('run-1', 'two');
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'COMPLETED']);
    assert.deepEqual(cluster.submitted, ['run-1/1']);
    assert.deepEqual(service.logs.texts('run-1'), ['one', 'two', '<end>']);
  });

  it('submits what it has claimed before a shutdown ends it', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    cluster.onSubmitted = () => clock.sleep(3_000);
    const run = service.add('run-1');
    const launcher = await harness.start();
    await harness.untilSubmitted('run-1');
    assert.equal(await harness.end(launcher), 0);
    assert.equal(run.state, 'ASSIGNED');
    assert.equal(cluster.jobs.size, 1);
  });

  it('removes jobs of its id whose attempts it has lost, before the first claim decides', async () => {
    const { harness, cluster, run, launcher: first } = await submitted();
    first.kill();
    run.state = 'CANCELLED';
    await harness.start();
    await harness.untilEmpty();
    assert.deepEqual(cluster.submitted, ['run-1/1']);
  });

  it('waits for the service before it claims that a job of its id is lost or not', async () => {
    const { harness, clock, cluster, service, run, launcher: first } = await submitted();
    first.kill();
    service.onCall = ({ what }) => (what === 'getRun' ? { kind: 'unreachable', reason: 'down' } : undefined);
    const starting = harness.start();
    await clock.pass(120_000);
    assert.equal(cluster.jobs.size, 1);
    service.onCall = () => undefined;
    await starting;
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
  });

  it('ends jobs of a launcher that is gone, once the service has reclaimed their attempts', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    const run = service.add('run-1');
    const gone = await harness.start({ workerId: 'gone' });
    await harness.untilSubmitted('run-1');
    gone.kill();
    await harness.start({ env: { SERVICE_WORKER_MAX_PENDING: '1' }, workerId: 'other' });
    await clock.pass(180_000);
    assert.equal(cluster.removals.length, 0, 'its worker still holds the attempt');
    service.onCall = ({ what }) =>
      what === 'getRun' ? { kind: 'refused', status: 404, detail: 'not found' } : undefined;
    run.state = 'CANCELLED';
    await clock.pass(180_000);
    assert.equal(cluster.removals.length, 0, 'a 404 decides nothing');
    service.onCall = () => undefined;
    await clock.pass(120_000);
    assert.deepEqual(cluster.removals, ['run-1/1']);
  });

  it('that runs twice under one id executes an attempt once and reports its end once', async () => {
    const { harness, clock, cluster, service, run } = await running({ maxAttempts: 3 });
    await harness.start();
    cluster.print('run-1', '{"type":"NOTE","msg":1}', 'x', '{"type":"NOTE","msg":2}');
    await clock.pass(2_000);
    cluster.job('run-1').outputs = { ok: true };
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
    await clock.pass(120_000);
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'NOTE', 'NOTE', 'COMPLETED']);
    assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { ok: true } });
    assert.equal(service.logs.texts('run-1').filter((text) => text === 'x').length, 1);
    assert.deepEqual(cluster.submitted, ['run-1/1']);
  });

  it('adopts a job that prints nothing more, and ends its log once', async () => {
    const { harness, clock, cluster, service, run, launcher: first } = await submitted();
    cluster.set('run-1', RUNNING);
    cluster.print('run-1', 'one', 'two', '{"type":"NOTE","msg":1}');
    await harness.untilState(run, 'RUNNING');
    await clock.pass(2_000);
    first.kill();
    await harness.start();
    await clock.pass(60_000);
    assert.deepEqual(service.logs.texts('run-1'), ['one', 'two', '{"type":"NOTE","msg":1}']);
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    await clock.pass(5_000);
    assert.equal(service.logs.texts('run-1').at(-1), '<end>');
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'NOTE', 'COMPLETED']);
  });

  it('adopts a job of whose log the service refuses the first chunk, and reports its end', async () => {
    for (const status of [400, 413]) {
      const { harness, clock, cluster, service, run, launcher: first } = await running();
      first.kill();
      cluster.print('run-1', '{"type":"NOTE","msg":1}', 'two');
      const refusals = [{ kind: 'refused', status, detail: 'no' } as const];
      service.onCall = ({ what }) => (what === 'putLogChunk' ? refusals.shift() : undefined);
      await harness.start();
      await clock.pass(5_000);
      cluster.exit('run-1');
      await clock.pass(60_000);
      assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'NOTE', 'COMPLETED']);
    }
  });

  it('killed at any moment is followed by one that repeats nothing: one job, each event and line once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 6_000 }), { minLength: 1, maxLength: 3 }),
        fc.nat({ max: 300 }),
        async (killsAfterMs, lineCount) => {
          const harness = new LauncherHarness();
          const { clock, cluster, service } = harness;
          const run: FakeRun = service.add('run-1');
          const lines = Array.from({ length: lineCount }, (_, n) =>
            n % 3 === 0 ? `{"type":"NOTE","msg":${n}}` : `line ${n}`,
          );
          let launcher = await harness.start();
          await harness.untilSubmitted('run-1');
          cluster.set('run-1', RUNNING);
          for (const ms of killsAfterMs) {
            cluster.jobs.get('run-1/1')?.lines.push(...lines.splice(0, Math.ceil(lines.length / 2)));
            cluster.changed();
            await clock.pass(ms);
            launcher.kill();
            launcher = await harness.start();
          }
          cluster.print('run-1', ...lines);
          cluster.exit('run-1');
          await harness.untilState(run, 'COMPLETED');
          await harness.untilEmpty();
          const notes = run.timeline.filter(({ type }) => type === 'NOTE').map(({ msg }) => msg);
          const printed = Array.from({ length: lineCount }, (_, n) => n);
          assert.deepEqual(
            notes,
            printed.filter((n) => n % 3 === 0),
          );
          const types = eventTypes(run).filter((type) => type !== 'NOTE');
          assert.deepEqual(types, ['SUBMITTED', 'STARTED', 'COMPLETED']);
          await clock.pass(20_000);
          const texts = printed.map((n) => (n % 3 === 0 ? `{"type":"NOTE","msg":${n}}` : `line ${n}`));
          assert.deepEqual(service.logs.texts('run-1'), [...texts, '<end>']);
          assert.deepEqual(cluster.submitted, ['run-1/1']);
          await harness.end(launcher);
        },
      ),
      { numRuns: 25 },
    );
  });
});
