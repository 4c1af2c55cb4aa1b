import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'vitest';
import { DOWN, eventTypes, PLAIN, type Fault } from '@longshore/worker/testing/fake-service';
import { LauncherHarness, running } from '../testing/launcher-harness.js';

const REFUSED: Fault = { kind: 'refused', status: 401, detail: 'Invalid API key' };

describe('a launcher', () => {
  it('whose key is refused leaves its jobs to its next process', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    const runs = [service.add('run-1'), service.add('run-2')];
    const first = await harness.start();
    for (const run of runs) {
      await harness.untilSubmitted(run.id);
      cluster.print(run.id, 'one');
      cluster.set(run.id, { kind: 'running' });
      await harness.untilState(run, 'RUNNING');
    }
    service.onCall = () => REFUSED;
    await clock.until('the launcher ends', () => first.exitCode() !== null, 100);
    assert.equal(first.exitCode(), 3);
    assert.deepEqual(cluster.removals, []);
    service.onCall = () => undefined;
    await harness.start();
    for (const run of runs) {
      cluster.print(run.id, 'two');
      cluster.exit(run.id);
      await harness.untilState(run, 'COMPLETED');
      assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'COMPLETED']);
    }
    await clock.pass(5_000);
    for (const { id } of runs) assert.deepEqual(service.logs.texts(id), ['one', 'two', '<end>']);
    assert.deepEqual(cluster.submitted, ['run-1/1', 'run-2/1']);
  });

  it('that is stopped while the service does not take the end of a job exits at once, and its next process reports the end', async () => {
    for (const exitCode of [0, 3]) {
      const { harness, clock, cluster, service, run, launcher: first } = await running();
      service.onCall = () => DOWN;
      cluster.print('run-1', 'last line');
      cluster.exit('run-1', exitCode);
      await clock.pass(60_000);
      const stoppedMs = clock.nowMs();
      assert.equal(await harness.end(first), 0);
      assert.ok(clock.nowMs() - stoppedMs < 2_000, `${clock.nowMs() - stoppedMs} ms`);
      assert.deepEqual(cluster.removals, []);
      service.onCall = () => undefined;
      await harness.start();
      const state = exitCode === 0 ? 'COMPLETED' : 'FAILED';
      await harness.untilState(run, state);
      await harness.untilEmpty();
      assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', state]);
      await clock.pass(5_000);
      assert.deepEqual(service.logs.texts('run-1'), ['last line', '<end>']);
    }
  });

  it('that is stopped says at last for how long it leaves its jobs, and stays in the list', async () => {
    for (const answers of [[], [DOWN, DOWN]]) {
      const { harness, service, launcher } = await running();
      service.onCall = ({ report }) => (report?.awaySeconds === 600 ? answers.shift() : undefined);
      assert.equal(await harness.end(launcher), 0);
      const last = service.calls.at(-1)?.report;
      assert.equal(last?.awaySeconds, 600);
      assert.deepEqual(
        last.runningOps.map(({ id, attempt }) => [id, attempt]),
        [['run-1', 1]],
      );
      assert.deepEqual(
        last.notClaiming.map(({ reason }) => reason),
        ['draining'],
      );
      assert.deepEqual(service.callsOf('removeWorker'), []);
    }
  });

  it('that is stopped while the service takes the end of a job waits for the answer', async () => {
    const { harness, clock, cluster, service, run, launcher } = await running();
    const postEvent = service.postEvent.bind(service);
    service.postEvent = async (...given) => {
      const answer = await postEvent(...given);
      await clock.sleep(3_000);
      return answer;
    };
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    assert.equal(await harness.end(launcher), 0);
    assert.deepEqual(cluster.removals, ['run-1/1']);
  });

  it('that is stopped waits for the program of a cancelled run no longer than its drain time', async () => {
    const container = { ...PLAIN, stop_grace_s: 3600 };
    const { harness, clock, cluster, run, launcher } = await running({ container });
    cluster.onRemove = () => new Promise(() => undefined);
    run.state = 'CANCELLED';
    await clock.until('the job is being removed', () => cluster.removals.length === 1, 20);
    const stoppedMs = clock.nowMs();
    launcher.worker.shutDown();
    await clock.until('the launcher ends', () => launcher.exitCode() !== null, 400);
    assert.equal(launcher.exitCode(), 0);
    assert.ok(clock.nowMs() - stoppedMs < 60_000, `${clock.nowMs() - stoppedMs} ms`);
    assert.deepEqual(
      [cluster.killed, harness.listed()],
      [[], []],
      'the cluster ends the job after its grace',
    );
  });

  it('kills the job of a cancelled run when an admin wants that', async () => {
    const { harness, clock, cluster, run, service } = await running();
    const ended = new AbortController();
    cluster.onRemove = async () => void (await once(ended.signal, 'abort'));
    cluster.onKill = () => ended.abort();
    run.state = 'CANCELLED';
    await clock.until('the job is being removed', () => cluster.removals.length === 1, 20);
    await clock.pass(60_000);
    assert.deepEqual(cluster.killed, []);
    service.killed.add(run.id);
    await harness.untilEmpty();
    assert.deepEqual(cluster.killed, ['run-1/1']);
  });
});
