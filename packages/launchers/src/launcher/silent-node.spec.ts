import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { DOWN } from '@longshore/worker/testing/fake-service';
import { LauncherHarness, running, type LauncherProcess } from '../testing/launcher-harness.js';

const MINUTE_MS = 60_000;

/** A run whose job has ended on a node that gives neither its log nor its outputs. */
class SilentScene extends LauncherHarness {
  readonly run: FakeRun = this.service.add('run-1');
  private launcher: LauncherProcess | null = null;

  async exited(exitCode: number): Promise<void> {
    this.launcher = await this.start();
    await this.untilSubmitted('run-1');
    const job = this.cluster.job('run-1');
    job.outputs = { n: 1 };
    this.cluster.print('run-1', 'first');
    this.cluster.set('run-1', { kind: 'running' });
    await this.untilState(this.run, 'RUNNING');
    await this.clock.pass(2_000);
    job.isSilent = true;
    this.cluster.print('run-1', 'last');
    this.cluster.exit('run-1', exitCode);
    await this.clock.pass(4 * MINUTE_MS);
    assert.equal(this.run.state, 'RUNNING');
  }

  answer(): void {
    this.cluster.job('run-1').isSilent = false;
    this.cluster.changed();
  }

  async ended(state: string): Promise<Readonly<Record<string, unknown>>> {
    await this.untilState(this.run, state);
    await this.untilEmpty();
    await this.clock.pass(5_000);
    if (this.launcher !== null) await this.end(this.launcher);
    return { ...this.run.timeline.at(-1)?.payload };
  }
}

describe('a job that has ended on a node that gives no log and no outputs', () => {
  it('is reported with its exit code after some minutes, without the rest of the log', async () => {
    const scene = new SilentScene();
    await scene.exited(7);
    await scene.clock.pass(8 * MINUTE_MS);
    const { error_message: message, ...payload } = await scene.ended('FAILED');
    assert.deepEqual(payload, { cause: 'exit', exit_code: 7 });
    assert.equal(message, 'The container ended with exit code 7. Its last log lines:\nfirst');
    assert.deepEqual(scene.service.logs.texts('run-1'), [
      'first',
      '[worker] The log is not complete: kubernetes has not given the rest of the log for 5 minutes',
      '<end>',
    ]);
  });

  it('is a failure of the infrastructure after some minutes when it has succeeded', async () => {
    const scene = new SilentScene();
    await scene.exited(0);
    await scene.clock.pass(16 * MINUTE_MS);
    const { cause } = await scene.ended('FAILED');
    assert.equal(cause, 'infrastructure');
  });

  it('is reported with all when the node is back in time', async () => {
    const scene = new SilentScene();
    await scene.exited(0);
    scene.answer();
    assert.deepEqual(await scene.ended('COMPLETED'), { outputs: { n: 1 } });
    assert.deepEqual(scene.service.logs.texts('run-1'), ['first', 'last', '<end>']);
  });

  it('waits while the whole engine is unavailable', async () => {
    const scene = new SilentScene();
    await scene.exited(0);
    scene.cluster.isDown = true;
    await scene.clock.pass(60 * MINUTE_MS);
    assert.equal(scene.run.state, 'RUNNING');
    scene.cluster.isDown = false;
    await scene.clock.pass(MINUTE_MS);
    scene.answer();
    assert.deepEqual(await scene.ended('COMPLETED'), { outputs: { n: 1 } });
  });
});

describe('a job that has ended', () => {
  it('is read to its end although the service takes none of its events for an hour', async () => {
    const { harness, clock, cluster, service, run } = await running();
    service.onCall = ({ what }) => (what === 'postEvent' ? DOWN : undefined);
    cluster.print('run-1', ...Array.from({ length: 300 }, (_, n) => `{"type":"NOTE","msg":${n}}`));
    cluster.exit('run-1');
    await clock.pass(60 * MINUTE_MS);
    service.onCall = () => undefined;
    await clock.until('run is COMPLETED', () => run.state === 'COMPLETED', 60);
    assert.equal(run.timeline.filter(({ type }) => type === 'NOTE').length, 300);
    await harness.untilEmpty();
  });
});
