import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import type { KubernetesApi } from './api/kubernetes-api.js';
import { Paths, type Pod } from './api/resources.js';
import { removeOrphans } from './orphan-cleanup.js';
import { ScriptedApi, status } from '../testing/scripted-api.js';

const SECRETS = '/api/v1/namespaces/runs/secrets';
const PODS = '/api/v1/namespaces/runs/pods';
const JOB = 'GET /apis/batch/v1/namespaces/runs/jobs/run-r1-1';
const LABELS = { 'longshore.run': 'r1', 'longshore.attempt': '1' };

describe('the removal of what a launcher left', () => {
  const scripted = { api: new ScriptedApi() };
  const clock = new FakeClock();
  let api: KubernetesApi;

  beforeEach(async () => {
    scripted.api = new ScriptedApi();
    api = await scripted.api.start();
    scripted.api.on(`DELETE ${SECRETS}/run-r1-1`, { body: {} });
    scripted.api.on(`PATCH ${SECRETS}/run-r1-1`, { body: {} });
    scripted.api.on(`DELETE ${PODS}/p1`, { body: {} });
  });

  afterEach(() => scripted.api.stop());

  function secretOfAge(seconds: number, more: object = {}): void {
    const creationTimestamp = new Date(clock.epochMs() - seconds * 1000).toISOString();
    const metadata = {
      name: 'run-r1-1',
      uid: 's1',
      resourceVersion: '7',
      labels: LABELS,
      creationTimestamp,
      ...more,
    };
    scripted.api.on(`GET ${SECRETS}`, { body: { items: [{ metadata }] } });
  }

  const remove = (pods: readonly Pod[] = []) =>
    removeOrphans({ api, paths: new Paths('runs'), deployment: 'prod', clock }, pods);
  const changes = () => scripted.api.calls.filter(({ route }) => !route.startsWith('GET'));

  it('deletes a Secret without a Job after five minutes, unless it has changed since the list', async () => {
    secretOfAge(299);
    assert.equal(await remove(), 0);
    secretOfAge(301);
    assert.equal(await remove(), 1);
    const [deletion] = changes();
    assert.deepEqual(deletion?.body, {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions: { uid: 's1', resourceVersion: '7' },
    });
    scripted.api.on(`DELETE ${SECRETS}/run-r1-1`, status(409, 'Conflict', 'precondition failed'));
    assert.equal(await remove(), 0);
  });

  it('makes a Job the owner of a Secret that a crash left without one', async () => {
    secretOfAge(301);
    scripted.api.on(JOB, { body: { metadata: { name: 'run-r1-1', uid: 'u1' } } });
    assert.equal(await remove(), 0);
    assert.deepEqual(
      changes().map(({ route, body }) => [route, Object(body).metadata.ownerReferences[0].uid]),
      [[`PATCH ${SECRETS}/run-r1-1`, 'u1']],
    );
  });

  it('leaves Secrets that have an owner to the cluster', async () => {
    secretOfAge(9_999, { ownerReferences: [{ uid: 'u1' }] });
    assert.equal(await remove(), 0);
    assert.deepEqual(changes(), []);
  });

  it('deletes a pod whose Job was deleted without it', async () => {
    scripted.api.on(`GET ${SECRETS}`, { body: { items: [] } });
    const pods = [
      { metadata: { name: 'p1', labels: LABELS } },
      { metadata: { name: 'p2', labels: LABELS, deletionTimestamp: '2026-01-01T00:00:00Z' } },
    ];
    assert.equal(await remove(pods), 1);
    assert.deepEqual(
      changes().map(({ route }) => route),
      [`DELETE ${PODS}/p1`],
    );
    scripted.api.on(JOB, { body: {} });
    assert.equal(await remove(pods), 0);
  });
});
