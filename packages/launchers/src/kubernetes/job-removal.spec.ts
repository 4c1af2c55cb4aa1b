import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import type { KubernetesApi } from './api/kubernetes-api.js';
import { Paths } from './api/resources.js';
import { removeJob } from './job-removal.js';
import { ScriptedApi } from '../testing/scripted-api.js';

const JOB = '/apis/batch/v1/namespaces/runs/jobs/run-r1-2';
const PODS = '/api/v1/namespaces/runs/pods';
const SECRETS = '/api/v1/namespaces/runs/secrets';
const KEY = { runId: 'r1', attempt: 2 };

const GRACE = { terminationGracePeriodSeconds: 10 };

const page = (...names: readonly string[]) => ({
  body: { items: names.map((name) => ({ metadata: { name }, spec: GRACE })) },
});
const terminating = (name: string) => ({
  body: { items: [{ metadata: { name, deletionTimestamp: '2026-11-23T22:00:00Z' }, spec: GRACE }] },
});

const options = (more: object) => ({ kind: 'DeleteOptions', apiVersion: 'v1', ...more });

describe('the removal of a job', () => {
  const scripted = { api: new ScriptedApi() };
  let api: KubernetesApi;
  let clock: FakeClock;

  beforeEach(async () => {
    scripted.api = new ScriptedApi();
    api = await scripted.api.start();
    clock = new FakeClock();
    scripted.api.on(`DELETE ${JOB}`, { body: {} });
    scripted.api.on(`DELETE ${PODS}/p1`, { body: {} });
  });

  afterEach(() => scripted.api.stop());

  /** Removes while time passes. */
  async function remove(): Promise<void> {
    let isDone = false;
    const parts = { api, paths: new Paths('runs'), deployment: 'prod', clock };
    const done = removeJob(parts, KEY).finally(() => (isDone = true));
    await clock.until('the job is removed', () => isDone, 50);
    await done;
  }

  const deletions = () =>
    scripted.api.calls
      .filter(({ route }) => route.startsWith('DELETE'))
      .map(({ route, body }) => ({ route, body }));

  it('deletes the Job before its pods, which keep their grace period, and deletes the Secrets last', async () => {
    scripted.api.on(`GET ${PODS}`, page('p1'), terminating('p1'), page());
    scripted.api.on(`GET ${JOB}`, { body: {} }, { body: {} }, { status: 404, body: {} });
    await remove();
    assert.deepEqual(deletions(), [
      { route: `DELETE ${JOB}`, body: options({ propagationPolicy: 'Foreground' }) },
      { route: `DELETE ${PODS}/p1`, body: options({}) },
      { route: `DELETE ${SECRETS}/run-r1-2`, body: options({}) },
      { route: `DELETE ${SECRETS}/run-r1-2-pull`, body: options({}) },
    ]);
    const { labelSelector } = scripted.api.calls.find(({ route }) => route === `GET ${PODS}`)?.query ?? {};
    assert.equal(labelSelector, 'longshore.deployment=prod,longshore.run=r1,longshore.attempt=2');
  });

  it('does nothing more for a job that is gone', async () => {
    scripted.api.on(`DELETE ${JOB}`, { status: 404, body: {} });
    scripted.api.on(`GET ${PODS}`, page());
    await remove();
  });

  it('deletes a pod that the Job started meanwhile', async () => {
    scripted.api.on(`GET ${JOB}`, { body: {} }, { status: 404, body: {} });
    scripted.api.on(`GET ${PODS}`, page(), page('p1'), terminating('p1'), page());
    await remove();
    const pods = deletions().filter(({ route }) => route.includes('/pods/'));
    assert.deepEqual(pods, [{ route: `DELETE ${PODS}/p1`, body: options({}) }]);
  });

  it('deletes a pod on a lost node without its node, half a minute after the grace period', async () => {
    let forcedAtMs: number | null = null;
    scripted.api.on(`DELETE ${PODS}/p1`, (response, { body }) => {
      if (Reflect.get(Object(body), 'gracePeriodSeconds') === 0) forcedAtMs ??= clock.nowMs();
      response.end('{}');
    });
    scripted.api.on(`GET ${PODS}`, (response) => {
      response.end(JSON.stringify((forcedAtMs === null ? terminating('p1') : page()).body));
    });
    await remove();
    assert.ok(forcedAtMs !== null && forcedAtMs >= 40_000 && forcedAtMs < 45_000, `at ${forcedAtMs}`);
  });
});
