import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import type { JobSpec } from '../launcher/engine.js';
import { Paths, type Job, type Pod } from './api/resources.js';
import { submitJob, removeJob, removeOrphans } from './job-lifecycle.js';
import { jobSpec } from '../testing/job-spec.js';
import { CONTEXT } from '../testing/job-context.js';
import { ScriptedApi, status } from '../testing/scripted-api.js';
import { FakeClock } from '@longshore/worker/testing/fake-clock';

const JOBS = '/apis/batch/v1/namespaces/runs/jobs';
const SECRETS = '/api/v1/namespaces/runs/secrets';
const PODS = '/api/v1/namespaces/runs/pods';
const JOB: Job = { metadata: { name: 'run-r1-2', uid: 'u1' } };
const CREATED = { status: 201, body: JOB };
const EXISTS = status(409, 'AlreadyExists', 'jobs.batch "run-r1-2" already exists');

describe('the submission of an attempt', () => {
  const scripted = ScriptedApi.forEachTest();

  beforeEach(() => {
    scripted.on(`POST ${SECRETS}`, { status: 201, body: {} });
    scripted.on(`POST ${JOBS}`, CREATED);
    scripted.on(`PATCH ${SECRETS}/run-r1-2`, { body: {} });
  });

  const submit = (spec: JobSpec = jobSpec()) =>
    submitJob({ api: scripted.api, paths: new Paths('runs') }, spec, CONTEXT);

  it('creates the Secret, then the Job, and makes the Job its owner', async () => {
    assert.deepEqual(await submit(), JOB);
    const [secret, job, patch] = scripted.calls;
    assert.deepEqual(scripted.routes(), [`POST ${SECRETS}`, `POST ${JOBS}`, `PATCH ${SECRETS}/run-r1-2`]);
    assert.equal(Reflect.get(Object(secret?.body), 'kind'), 'Secret');
    assert.equal(Reflect.get(Object(job?.body), 'kind'), 'Job');
    assert.equal(patch?.type, 'application/merge-patch+json');
    assert.deepEqual(patch?.body, {
      metadata: { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'run-r1-2', uid: 'u1' }] },
    });
  });

  it('takes the Job that another process submitted, and renews the Secret', async () => {
    scripted.on(`POST ${SECRETS}`, EXISTS);
    scripted.on(`POST ${JOBS}`, EXISTS);
    scripted.on(`GET ${JOBS}/run-r1-2`, { body: JOB });
    assert.deepEqual(await submit(jobSpec({ inputs: { a: 1 } })), JOB);
    const [renewed] = scripted.calls.filter(({ route }) => route === `PATCH ${SECRETS}/run-r1-2`);
    const { data } = Object(renewed?.body);
    assert.equal(data['input.json'], Buffer.from('{"a":1}').toString('base64'));
    assert.ok(!scripted.routes().some((route) => route.startsWith('DELETE')));
  });

  it('takes the Job when a quota refuses another one', async () => {
    scripted.on(`POST ${JOBS}`, status(403, 'Forbidden', 'exceeded quota'));
    scripted.on(`GET ${JOBS}/run-r1-2`, { body: JOB });
    assert.deepEqual(await submit(), JOB);
  });

  it('is a fault of the engine when the API server takes no jobs now, and leaves no Secret', async () => {
    scripted.on(`POST ${JOBS}`, status(403, 'Forbidden', 'exceeded quota: jobs'));
    scripted.on(`DELETE ${SECRETS}/run-r1-2`, { body: {} });
    await assert.rejects(submit(), {
      name: 'EngineFault',
      message: 'Kubernetes could not take the run: exceeded quota: jobs',
    });
    assert.equal(scripted.routes().at(-1), `DELETE ${SECRETS}/run-r1-2`);
  });

  it('is a fault of the run when the API server refuses what the run says', async () => {
    scripted.on(`POST ${JOBS}`, status(422, 'Invalid', 'env[0].name: Invalid value'));
    await assert.rejects(submit(), {
      name: 'RunFault',
      message: 'Kubernetes refuses the run: env[0].name: Invalid value',
    });
  });

  const DENIALS = [
    'admission webhook "validation.gatekeeper.sh" denied the request: [allowed-repos] no',
    "jobs.batch \"run-r1-2\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
  ];
  for (const message of DENIALS) {
    it(`is a fault of the run when an admission policy refuses it (${message.slice(0, 20)}...), and leaves no Secret`, async () => {
      scripted.on(`POST ${JOBS}`, status(403, 'Forbidden', message));
      scripted.on(`DELETE ${SECRETS}/run-r1-2`, { body: {} });
      await assert.rejects(submit(), { name: 'RunFault', message: `Kubernetes refuses the run: ${message}` });
      assert.equal(scripted.routes().at(-1), `DELETE ${SECRETS}/run-r1-2`);
    });
  }

  it('is a fault of the run that its Job would be too large, counted as it is sent, before anything is', async () => {
    const fits = jobSpec({ args: Array.from({ length: 16 }, () => 'x'.repeat(65_000)) });
    assert.deepEqual(await submit(fits), JOB);
    scripted.calls.length = 0;
    const env = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`N${i}_${'x'.repeat(9_000)}`, '']));
    for (const [spec, bytes] of [
      // As pods have it, a dollar sign is two.
      [jobSpec({ args: Array.from({ length: 12 }, () => '$'.repeat(65_000)) }), /of 156[0-9]{4} bytes/],
      [jobSpec({ args: Array.from({ length: 16 }, () => '"'.repeat(65_000)) }), /of 208[0-9]{4} bytes/],
      // The cluster notes names a second time.
      [jobSpec({ env }), /of 108[0-9]{4} bytes/],
    ] as const) {
      await assert.rejects(submit(spec), (error: Error) => {
        assert.equal(error.name, 'RunFault');
        assert.match(error.message, bytes);
        assert.match(error.message, /the limit is 1048576 bytes: pass large values as inputs or files$/);
        return true;
      });
    }
    assert.deepEqual(scripted.routes(), []);
  });

  it('is a fault of the run that its image may have no mounts and files', async () => {
    const settings = { ...CONTEXT.settings, mountImages: ['ghcr.io/acme/*', 'docker.io/library/busybox'] };
    const context = { ...CONTEXT, settings };
    const mounts = [{ scratch_mb: 1, path: '/scratch' }];
    const files = [{ path: '/a', content: '', mode: 0o444, isSecret: false }];
    const parts = { api: scripted.api, paths: new Paths('runs') };
    for (const [image, given] of [
      ['evil/tool:1', { mounts }],
      ['evil/tool:1', { files }],
      ['ghcr.io/acmeevil/tool', { mounts }],
    ] as const)
      await assert.rejects(submitJob(parts, jobSpec({ image, ...given }), context), (error: Error) => {
        assert.deepEqual([error.name, Reflect.get(error, 'reported')], ['RunFault', 'error']);
        assert.match(error.message, /may have no mounts and files: SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES/);
        return true;
      });
    assert.deepEqual(scripted.routes(), []);
    for (const spec of [
      jobSpec({ image: 'evil/tool:1' }),
      jobSpec({ image: 'ghcr.io/acme/a@sha256:' + 'a'.repeat(64), mounts }),
      jobSpec({ image: 'busybox', files }),
    ])
      assert.deepEqual(await submitJob(parts, spec, context), JOB);
  });

  it('is a fault of the run when the database of the cluster does not take it, and leaves no Secret', async () => {
    scripted.on(`POST ${JOBS}`, status(500, '', 'etcdserver: request is too large'));
    scripted.on(`DELETE ${SECRETS}/run-r1-2`, { body: {} });
    await assert.rejects(submit(), {
      name: 'RunFault',
      message: 'Kubernetes refuses the run: etcdserver: request is too large',
    });
    assert.equal(scripted.routes().at(-1), `DELETE ${SECRETS}/run-r1-2`);
  });

  it('is a fault of the engine when the launcher may not create jobs', async () => {
    const message = 'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"';
    scripted.on(`POST ${JOBS}`, status(403, 'Forbidden', message));
    await assert.rejects(submit(), { name: 'EngineFault' });
  });

  it('creates a Secret again that was removed as an orphan before the Job became its owner', async () => {
    scripted.on(`PATCH ${SECRETS}/run-r1-2`, status(404, 'NotFound', 'not found'));
    assert.deepEqual(await submit(), JOB);
    assert.equal(scripted.routes().at(-1), `POST ${SECRETS}`);
    const [first, again] = scripted.calls.filter(({ route }) => route === `POST ${SECRETS}`);
    const { metadata, data } = Object(again?.body);
    assert.deepEqual(data, Object(first?.body).data);
    assert.deepEqual(metadata.ownerReferences, [
      { apiVersion: 'batch/v1', kind: 'Job', name: 'run-r1-2', uid: 'u1' },
    ]);
  });

  it('keeps the Secret when it is open whether there is a Job', async () => {
    scripted.on(`POST ${JOBS}`, (response) => void response.destroy());
    await assert.rejects(submit(), { name: 'EngineFault' });
    scripted.on(`POST ${JOBS}`, status(504, 'Timeout', 'request timed out'));
    await assert.rejects(submit(), { name: 'EngineFault' });
    assert.ok(!scripted.routes().some((route) => route.startsWith('DELETE')));
  });
});

const JOB_PATH = `${JOBS}/run-r1-2`;
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
  const scripted = ScriptedApi.forEachTest();
  let clock: FakeClock;

  beforeEach(() => {
    clock = new FakeClock();
    scripted.on(`DELETE ${JOB_PATH}`, { body: {} });
    scripted.on(`DELETE ${PODS}/p1`, { body: {} });
  });

  /** Removes while time passes. */
  async function remove(): Promise<void> {
    let isDone = false;
    const parts = { api: scripted.api, paths: new Paths('runs'), deployment: 'prod', clock };
    const done = removeJob(parts, KEY).finally(() => (isDone = true));
    await clock.until('the job is removed', () => isDone, 50);
    await done;
  }

  const deletions = () =>
    scripted.calls
      .filter(({ route }) => route.startsWith('DELETE'))
      .map(({ route, body }) => ({ route, body }));

  it('deletes the Job before its pods, which keep their grace period, and deletes the Secrets last', async () => {
    scripted.on(`GET ${PODS}`, page('p1'), terminating('p1'), page());
    scripted.on(`GET ${JOB_PATH}`, { body: {} }, { body: {} }, { status: 404, body: {} });
    await remove();
    assert.deepEqual(deletions(), [
      { route: `DELETE ${JOB_PATH}`, body: options({ propagationPolicy: 'Foreground' }) },
      { route: `DELETE ${PODS}/p1`, body: options({}) },
      { route: `DELETE ${SECRETS}/run-r1-2`, body: options({}) },
      { route: `DELETE ${SECRETS}/run-r1-2-pull`, body: options({}) },
    ]);
    const { labelSelector } = scripted.calls.find(({ route }) => route === `GET ${PODS}`)?.query ?? {};
    assert.equal(labelSelector, 'longshore.deployment=prod,longshore.run=r1,longshore.attempt=2');
  });

  it('does nothing more for a job that is gone', async () => {
    scripted.on(`DELETE ${JOB_PATH}`, { status: 404, body: {} });
    scripted.on(`GET ${PODS}`, page());
    await remove();
  });

  it('deletes a pod that the Job started meanwhile', async () => {
    scripted.on(`GET ${JOB_PATH}`, { body: {} }, { status: 404, body: {} });
    scripted.on(`GET ${PODS}`, page(), page('p1'), terminating('p1'), page());
    await remove();
    const pods = deletions().filter(({ route }) => route.includes('/pods/'));
    assert.deepEqual(pods, [{ route: `DELETE ${PODS}/p1`, body: options({}) }]);
  });

  it('deletes a pod on a lost node without its node, half a minute after the grace period', async () => {
    let forcedAtMs: number | null = null;
    scripted.on(`DELETE ${PODS}/p1`, (response, { body }) => {
      if (Reflect.get(Object(body), 'gracePeriodSeconds') === 0) forcedAtMs ??= clock.nowMs();
      response.end('{}');
    });
    scripted.on(`GET ${PODS}`, (response) => {
      response.end(JSON.stringify((forcedAtMs === null ? terminating('p1') : page()).body));
    });
    await remove();
    assert.ok(forcedAtMs !== null && forcedAtMs >= 40_000 && forcedAtMs < 45_000, `at ${forcedAtMs}`);
  });
});

const OWNER = `GET ${JOBS}/run-r1-1`;
const LABELS = { 'longshore.run': 'r1', 'longshore.attempt': '1' };

describe('the removal of what a launcher left', () => {
  const scripted = ScriptedApi.forEachTest();
  const clock = new FakeClock();

  beforeEach(() => {
    scripted.on(`DELETE ${SECRETS}/run-r1-1`, { body: {} });
    scripted.on(`PATCH ${SECRETS}/run-r1-1`, { body: {} });
    scripted.on(`DELETE ${PODS}/p1`, { body: {} });
  });

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
    scripted.on(`GET ${SECRETS}`, { body: { items: [{ metadata }] } });
  }

  const remove = (pods: readonly Pod[] = []) =>
    removeOrphans({ api: scripted.api, paths: new Paths('runs'), deployment: 'prod', clock }, pods);
  const changes = () => scripted.calls.filter(({ route }) => !route.startsWith('GET'));

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
    scripted.on(`DELETE ${SECRETS}/run-r1-1`, status(409, 'Conflict', 'precondition failed'));
    assert.equal(await remove(), 0);
  });

  it('makes a Job the owner of a Secret that a crash left without one', async () => {
    secretOfAge(301);
    scripted.on(OWNER, { body: { metadata: { name: 'run-r1-1', uid: 'u1' } } });
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
    scripted.on(`GET ${SECRETS}`, { body: { items: [] } });
    const pods = [
      { metadata: { name: 'p1', labels: LABELS } },
      { metadata: { name: 'p2', labels: LABELS, deletionTimestamp: '2026-01-01T00:00:00Z' } },
    ];
    assert.equal(await remove(pods), 1);
    assert.deepEqual(
      changes().map(({ route }) => route),
      [`DELETE ${PODS}/p1`],
    );
    scripted.on(OWNER, { body: {} });
    assert.equal(await remove(pods), 0);
  });
});
