import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { JobSpec } from '../launcher/engine.js';
import type { KubernetesApi } from './api/kubernetes-api.js';
import { Paths, type Job } from './api/resources.js';
import { submitJob } from './job-submission.js';
import { jobSpec } from '../testing/job-spec.js';
import { CONTEXT } from '../testing/job-context.js';
import { ScriptedApi, status } from '../testing/scripted-api.js';

const JOBS = '/apis/batch/v1/namespaces/runs/jobs';
const SECRETS = '/api/v1/namespaces/runs/secrets';
const JOB: Job = { metadata: { name: 'run-r1-2', uid: 'u1' } };
const CREATED = { status: 201, body: JOB };
const EXISTS = status(409, 'AlreadyExists', 'jobs.batch "run-r1-2" already exists');

describe('the submission of an attempt', () => {
  const scripted = { api: new ScriptedApi() };
  let api: KubernetesApi;

  beforeEach(async () => {
    scripted.api = new ScriptedApi();
    api = await scripted.api.start();
    scripted.api.on(`POST ${SECRETS}`, { status: 201, body: {} });
    scripted.api.on(`POST ${JOBS}`, CREATED);
    scripted.api.on(`PATCH ${SECRETS}/run-r1-2`, { body: {} });
  });

  afterEach(() => scripted.api.stop());

  const submit = (spec: JobSpec = jobSpec()) => submitJob({ api, paths: new Paths('runs') }, spec, CONTEXT);

  it('creates the Secret, then the Job, and makes the Job its owner', async () => {
    assert.deepEqual(await submit(), JOB);
    const [secret, job, patch] = scripted.api.calls;
    assert.deepEqual(scripted.api.routes(), [`POST ${SECRETS}`, `POST ${JOBS}`, `PATCH ${SECRETS}/run-r1-2`]);
    assert.equal(Reflect.get(Object(secret?.body), 'kind'), 'Secret');
    assert.equal(Reflect.get(Object(job?.body), 'kind'), 'Job');
    assert.equal(patch?.type, 'application/merge-patch+json');
    assert.deepEqual(patch?.body, {
      metadata: { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'run-r1-2', uid: 'u1' }] },
    });
  });

  it('takes the Job that another process submitted, and renews the Secret', async () => {
    scripted.api.on(`POST ${SECRETS}`, EXISTS);
    scripted.api.on(`POST ${JOBS}`, EXISTS);
    scripted.api.on(`GET ${JOBS}/run-r1-2`, { body: JOB });
    assert.deepEqual(await submit(jobSpec({ inputs: { a: 1 } })), JOB);
    const [renewed] = scripted.api.calls.filter(({ route }) => route === `PATCH ${SECRETS}/run-r1-2`);
    const { data } = Object(renewed?.body);
    assert.equal(data['input.json'], Buffer.from('{"a":1}').toString('base64'));
    assert.equal(
      scripted.api.routes().some((route) => route.startsWith('DELETE')),
      false,
    );
  });

  it('takes the Job when a quota refuses another one', async () => {
    scripted.api.on(`POST ${JOBS}`, status(403, 'Forbidden', 'exceeded quota'));
    scripted.api.on(`GET ${JOBS}/run-r1-2`, { body: JOB });
    assert.deepEqual(await submit(), JOB);
  });

  it('is a fault of the engine when the API server takes no jobs now, and leaves no Secret', async () => {
    scripted.api.on(`POST ${JOBS}`, status(403, 'Forbidden', 'exceeded quota: jobs'));
    scripted.api.on(`DELETE ${SECRETS}/run-r1-2`, { body: {} });
    await assert.rejects(submit(), {
      name: 'EngineFault',
      message: 'Kubernetes could not take the run: exceeded quota: jobs',
    });
    assert.equal(scripted.api.routes().at(-1), `DELETE ${SECRETS}/run-r1-2`);
  });

  it('is a fault of the run when the API server refuses what the run says', async () => {
    scripted.api.on(`POST ${JOBS}`, status(422, 'Invalid', 'env[0].name: Invalid value'));
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
      scripted.api.on(`POST ${JOBS}`, status(403, 'Forbidden', message));
      scripted.api.on(`DELETE ${SECRETS}/run-r1-2`, { body: {} });
      await assert.rejects(submit(), { name: 'RunFault', message: `Kubernetes refuses the run: ${message}` });
      assert.equal(scripted.api.routes().at(-1), `DELETE ${SECRETS}/run-r1-2`);
    });
  }

  it('is a fault of the engine when the launcher may not create jobs', async () => {
    const message = 'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"';
    scripted.api.on(`POST ${JOBS}`, status(403, 'Forbidden', message));
    await assert.rejects(submit(), { name: 'EngineFault' });
  });

  it('creates a Secret again that was removed as an orphan before the Job became its owner', async () => {
    scripted.api.on(`PATCH ${SECRETS}/run-r1-2`, status(404, 'NotFound', 'not found'));
    assert.deepEqual(await submit(), JOB);
    assert.equal(scripted.api.routes().at(-1), `POST ${SECRETS}`);
    const [first, again] = scripted.api.calls.filter(({ route }) => route === `POST ${SECRETS}`);
    const { metadata, data } = Object(again?.body);
    assert.deepEqual(data, Object(first?.body).data);
    assert.deepEqual(metadata.ownerReferences, [
      { apiVersion: 'batch/v1', kind: 'Job', name: 'run-r1-2', uid: 'u1' },
    ]);
  });

  it('keeps the Secret when it is open whether there is a Job', async () => {
    scripted.api.on(`POST ${JOBS}`, (response) => void response.destroy());
    await assert.rejects(submit(), { name: 'EngineFault' });
    scripted.api.on(`POST ${JOBS}`, status(504, 'Timeout', 'request timed out'));
    await assert.rejects(submit(), { name: 'EngineFault' });
    assert.equal(
      scripted.api.routes().some((route) => route.startsWith('DELETE')),
      false,
    );
  });
});
