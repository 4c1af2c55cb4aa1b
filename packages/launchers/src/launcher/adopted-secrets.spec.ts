import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { DOWN, errorMessage, eventTypes, PLAIN, type Fault } from '@longshore/worker/testing/fake-service';
import { LauncherHarness, type LauncherProcess } from '../testing/launcher-harness.js';

const GONE: Fault = { kind: 'refused', status: 404, detail: "Secret 'token' does not exist" };

/** A run with a secret whose launcher was killed while its job runs. */
class KilledScene extends LauncherHarness {
  readonly run: FakeRun;

  constructor() {
    super();
    this.run = this.service.add('run-1', { container: { ...PLAIN, secrets: { TOKEN: 'token' } } });
    this.service.secrets = { env: { TOKEN: 'first-value' }, files: {}, registry: null };
  }

  /** @param line printed before */
  async killed(line: string): Promise<void> {
    const launcher = await this.start();
    await this.untilSubmitted('run-1');
    this.cluster.print('run-1', line);
    this.cluster.set('run-1', { kind: 'running' });
    await this.untilState(this.run, 'RUNNING');
    await this.clock.pass(2_000);
    launcher.kill();
  }

  /** What the service got about the run since its launcher was killed. */
  async ended(launcher: LauncherProcess, state: string): Promise<string> {
    await this.untilState(this.run, state);
    await this.untilEmpty();
    await this.clock.pass(5_000);
    await this.end(launcher);
    return JSON.stringify([this.run.timeline, this.service.logs.texts('run-1')]);
  }
}

const signed = (signature: string) => ({ data: { url: `https://store/data?signature=${signature}` } });

/** The first lines of the log of such a run. @param isLost whether the engine has lost what the job was submitted with */
async function logOf(inputs: JsonObject, isLost: boolean): Promise<string[]> {
  const scene = new KilledScene();
  scene.run.container = PLAIN;
  scene.run.inputs = inputs;
  await scene.killed('before');
  if (isLost) scene.cluster.job('run-1').keptMemo = null;
  // The service signs anew for each answer.
  if ('data' in inputs) scene.run.inputs = signed('second');
  const launcher = await scene.start();
  scene.cluster.print('run-1', 'get ?signature=first');
  scene.cluster.exit('run-1', 3);
  const reported = await scene.ended(launcher, 'FAILED');
  if ('data' in inputs) assert.doesNotMatch(reported, /first/);
  return scene.service.logs.texts('run-1').slice(0, 2);
}

describe('the job of a killed launcher, of a run with signed URLs', () => {
  it('shows no query of a URL that its program has, which the next launcher finds in the engine', async () => {
    assert.deepEqual(await logOf(signed('first'), false), ['before', 'get ?***']);
  });

  it('shows no text when the engine has lost them, and all of a run that has none', async () => {
    assert.deepEqual(await logOf(signed('first'), true), ['before', '***']);
    assert.deepEqual(await logOf({}, true), ['before', 'get ?signature=first']);
  });
});

describe('the job of a killed launcher, of a run with a secret', () => {
  for (const [which, answer] of [
    ['does not exist any more', GONE],
    ['cannot be read', { kind: 'unreachable', reason: 'HTTP 503: Secrets are not configured' }],
    ['is not asked for, as the service is unreachable', DOWN],
  ] as const) {
    it(`ends by itself when the secret ${which}`, async () => {
      const scene = new KilledScene();
      await scene.killed('before');
      scene.service.onCall = ({ what }) => (what === 'getSecrets' ? answer : undefined);
      const launcher = await scene.start();
      await scene.clock.pass(120_000);
      assert.deepEqual(scene.cluster.removals, []);
      scene.cluster.print('run-1', 'now first-value');
      scene.cluster.job('run-1').outputs = { text: 'has first-value' };
      scene.cluster.exit('run-1');
      await scene.ended(launcher, 'COMPLETED');
      assert.deepEqual(scene.run.timeline.at(-1)?.payload, {
        outputs: { text: 'has ***' },
        outputs_changed: { masked: [{ path: '/text', key: false, secrets: ['TOKEN'] }], replaced: 0 },
      });
      assert.deepEqual(scene.service.logs.texts('run-1'), ['before', 'now ***', '<end>']);
    });
  }

  it('shows the value that its container has nowhere, after another value was stored', async () => {
    const scene = new KilledScene();
    await scene.killed('{"type":"NOTE","msg":"first-value"}');
    scene.service.secrets = { env: { TOKEN: 'second-value' }, files: {}, registry: null };
    const launcher = await scene.start();
    scene.cluster.print('run-1', 'x first-value', '{"type":"NOTE","msg":"y first-value"}');
    scene.cluster.exit('run-1', 3);
    const reported = await scene.ended(launcher, 'FAILED');
    assert.doesNotMatch(reported, /first-value/);
    assert.deepEqual(eventTypes(scene.run), ['SUBMITTED', 'STARTED', 'NOTE', 'NOTE', 'FAILED']);
    assert.deepEqual(scene.service.logs.texts('run-1').slice(1, 2), ['x ***']);
  });

  it('asks an engine that does not answer for the values again', async () => {
    const scene = new KilledScene();
    await scene.killed('before');
    let tries = 0;
    const job = scene.cluster.job('run-1');
    Object.defineProperty(job, 'keptSecrets', {
      get: () => {
        tries += 1;
        if (tries < 10) throw new EngineFault('no answer');
        return job.spec.secrets;
      },
    });
    const launcher = await scene.start();
    await scene.clock.pass(600_000);
    scene.cluster.print('run-1', 'x first-value');
    scene.cluster.exit('run-1');
    await scene.ended(launcher, 'COMPLETED');
    assert.deepEqual(scene.service.logs.texts('run-1'), ['before', 'x ***', '<end>']);
  });

  for (const [what, container] of [
    ['the variables of a secret that holds them', { secrets_from: [{ secret: 'map' }] }],
    ['the value of a file', { files: { '/key': { secret: 'key' } } }],
  ] as const) {
    it(`masks ${what}, too, and shows no text when the engine has lost it`, async () => {
      for (const isLost of [false, true]) {
        const scene = new KilledScene();
        scene.run.container = { ...PLAIN, ...container };
        if ('files' in container)
          scene.service.secrets = { env: {}, files: { '/key': 'first-value' }, registry: null };
        await scene.killed('before');
        if (isLost) scene.cluster.job('run-1').keptSecrets = null;
        const launcher = await scene.start();
        scene.cluster.print('run-1', 'x first-value');
        scene.cluster.exit('run-1', 3);
        await scene.ended(launcher, 'FAILED');
        assert.deepEqual(scene.service.logs.texts('run-1').slice(1, 2), [isLost ? '***' : 'x ***']);
      }
    });
  }

  describe('when the engine has lost the values', () => {
    it('ends with its exit code, and without texts of its container', async () => {
      const scene = new KilledScene();
      await scene.killed('before');
      scene.cluster.job('run-1').keptSecrets = null;
      const launcher = await scene.start();
      scene.cluster.print('run-1', 'x first-value', '{"type":"NOTE","msg":"first-value"}');
      scene.cluster.exit('run-1', 3);
      const reported = await scene.ended(launcher, 'FAILED');
      assert.doesNotMatch(reported, /first-value/);
      assert.deepEqual(eventTypes(scene.run), ['SUBMITTED', 'STARTED', 'FAILED']);
      const { cause, exit_code: exitCode } = scene.run.timeline.at(-1)?.payload ?? {};
      assert.deepEqual([cause, exitCode], ['exit', 3]);
      assert.match(errorMessage(scene.run), /exit code 3.*held back/);
      const log = scene.service.logs.texts('run-1');
      assert.deepEqual(log.slice(0, 3), ['before', '***', '***']);
      assert.match(log[3] ?? '', /^\[worker\] .*held back/);
    });

    it('is COMPLETED without outputs, and another attempt with outputs', async () => {
      for (const [outputs, state] of [
        [undefined, 'COMPLETED'],
        [{}, 'COMPLETED'],
        [{ text: 'first-value' }, 'FAILED'],
      ] as const) {
        const scene = new KilledScene();
        await scene.killed('before');
        const job = scene.cluster.job('run-1');
        job.keptSecrets = null;
        job.outputs = outputs;
        const launcher = await scene.start();
        scene.cluster.exit('run-1');
        assert.doesNotMatch(await scene.ended(launcher, state), /first-value/);
        if (state === 'FAILED') assert.equal(scene.run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
      }
    });

    it('shows no words of the engine about its failure', async () => {
      const scene = new KilledScene();
      await scene.killed('before');
      scene.cluster.job('run-1').keptSecrets = null;
      const launcher = await scene.start();
      scene.cluster.set('run-1', { kind: 'failed', cause: 'error', message: 'cannot exec first-value' });
      assert.doesNotMatch(await scene.ended(launcher, 'FAILED'), /first-value/);
      assert.equal(scene.run.timeline.at(-1)?.payload?.['cause'], 'error');
    });
  });
});
