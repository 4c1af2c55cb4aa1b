import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { RunArtifacts, Upload } from '@longshore/worker/service-api/run-artifacts';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { LauncherHarness } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const ENDED: JobStatus = { kind: 'running', hasEnded: true };
const UPLOAD: Upload = {
  kind: 'whole',
  request: { method: 'PUT', url: 'https://s/x?signature=a', headers: {} },
};
const ARTIFACT = { name: 'model', path: '/out/m', bytes: 1, sha256: 'a', contentType: 'text/plain' };
const REPORTED = [{ name: 'model', path: '/out/m', bytes: 1, sha256: 'a', content_type: 'text/plain' }];
const ARTIFACTS: RunArtifacts = {
  in: {},
  out: { model: { path: '/out/m', isRequired: true, isAlways: true } },
};

/** A run whose files the job stores as they say, and whose program has ended. */
async function withEnded(
  store: (ask: (name: string) => Promise<unknown>) => Promise<readonly string[]>,
): Promise<{ readonly harness: LauncherHarness; readonly run: FakeRun }> {
  const harness = new LauncherHarness();
  const { service, cluster } = harness;
  service.uploads = () => UPLOAD;
  cluster.onStore = async (_, getUploads) => {
    const missing = await store(async (name) => (await getUploads({ names: [name] }))[name]);
    return { stored: missing.length === 0 ? [ARTIFACT] : [], missing };
  };
  const run = service.add('run-1', { artifacts: ARTIFACTS });
  await harness.start();
  await harness.untilRunning(run);
  cluster.set('run-1', ENDED);
  return { harness, run };
}

function ending({ timeline }: FakeRun): unknown[] {
  const { type, payload } = timeline.at(-1) ?? {};
  return [type, payload?.['artifacts'], payload?.['error_message'] ?? null];
}

describe('the files of a job', () => {
  it('are stored once its program has ended, at URLs that the service gives then, and reported', async () => {
    let given: unknown;
    const { harness, run } = await withEnded(async (ask) => {
      given = await ask('model');
      return [];
    });
    await harness.clock.until('the URL is given', () => given !== undefined, 20);
    assert.deepEqual([given, run.state], [UPLOAD, 'RUNNING']);
    assert.equal(harness.cluster.job('run-1').spec.signedFiles, ARTIFACTS);
    harness.cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(ending(run), ['COMPLETED', REPORTED, null]);
  });

  it('are reported after a failure of the program, whose exit code stays', async () => {
    const { harness, run } = await withEnded(async () => []);
    harness.cluster.exit('run-1', 7);
    await harness.untilState(run, 'FAILED');
    assert.deepEqual(ending(run).slice(0, 2), ['FAILED', REPORTED]);
    assert.equal(run.timeline.at(-1)?.payload?.['exit_code'], 7);
  });

  for (const [what, store, cause, message] of [
    ['one is missing', async () => ["'/out/m' (model)"], 'error', "The run has not left '/out/m' (model)"],
    ['they cannot be stored', () => Promise.reject(new RunFault('too many')), 'error', 'too many'],
    ['the store is away', () => Promise.reject(new Error('HTTP 503')), 'infrastructure', 'HTTP 503'],
  ] as const) {
    it(`fail the run when ${what}`, async () => {
      const { harness, run } = await withEnded(store);
      harness.cluster.exit('run-1');
      await harness.clock.until('the run has failed', () => run.timeline.at(-1)?.type === 'FAILED', 20);
      assert.deepEqual(ending(run), ['FAILED', undefined, message]);
      assert.equal(run.timeline.at(-1)?.payload?.['cause'], cause);
    });
  }

  it('are reported by the next launcher when they were stored before it came', async () => {
    const harness = new LauncherHarness();
    const { service, cluster } = harness;
    cluster.onStore = async () => ({ stored: [ARTIFACT], missing: [] });
    const run = service.add('run-1', { artifacts: ARTIFACTS });
    const first = await harness.start();
    await harness.untilRunning(run);
    first.kill();
    cluster.exit('run-1');
    await harness.start();
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(ending(run), ['COMPLETED', REPORTED, null]);
  });

  it('get fresh URLs while the job waits, and at once from a launcher that adopts it', async () => {
    const harness = new LauncherHarness();
    const { service, clock, cluster } = harness;
    service.add('run-1', { artifacts: ARTIFACTS });
    const first = await harness.start();
    await harness.untilSubmitted('run-1');
    await clock.pass(1_799_000);
    assert.equal(cluster.renewed.length, 0);
    await clock.pass(10_000);
    assert.equal(cluster.renewed.length, 1);
    first.kill();
    await harness.start();
    await clock.until('the adopted job has fresh URLs', () => cluster.renewed.length === 2, 20);
  });
});
