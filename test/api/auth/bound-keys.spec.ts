import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { issueKey } from '../../support/app/api-keys.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, senderTo, type Send } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

/** Everything that tells of one run. */
const READS = ['', '?include_events=false', '/events', '/attempts', '/logs', '/logs/stream'];

const missing = (name: string): string =>
  `header ${name} is required with an API key that is bound to workers`;

describe('a key that is bound to workers', () => {
  const service = useTestApp(() => ({
    env: {
      SERVICE_API_KEYS: `admin:${KEYS.admin},worker@one+gpu/*:bound-key-of-the-settings`,
    },
  }));
  const admin = new RunSteps(service.send);
  let mine: RunSteps;
  let send: Send;

  beforeAll(async () => {
    const made = await issueKey(service, ['worker'], { worker_ids: ['one', 'gpu/*'] });
    send = senderTo(service.url, made.key);
    mine = new RunSteps(send);
  });

  const statusOf = async (id: string, path: string, by = send): Promise<number> => {
    const response = await by('GET', `/runs/${id}${path}`);
    return response.status;
  };
  /** Ends the log, so that a stream of it ends, too. */
  const endLog = async (id: string, worker: string): Promise<void> => {
    const headers = { 'X-Worker-Id': worker, 'X-Run-Attempt': '1' };
    const body = { first_line: 0, lines: [], is_last: true };
    assert.equal((await service.send('PUT', `/runs/${id}/logs/0`, { headers, body })).status, 200);
  };

  test('heartbeats and claims as these workers only', async () => {
    for (const id of ['one', 'gpu/', 'gpu/a/b']) {
      assert.equal((await mine.heartbeat(id)).id, id);
      assert.deepEqual(await mine.claim(id), []);
    }
    for (const id of ['two', 'One', 'one2', 'gpu', 'xgpu/']) {
      const body = { worker_id: id, resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] };
      const detail = `API key is not bound to worker '${id}'`;
      assertError(await send('POST', '/workers/heartbeat', { body }), 403, detail);
      const path = encodeURIComponent(id);
      assertError(await send('POST', `/workers/${path}/claim`), 403, detail);
      const events = [{ run_id: UNKNOWN, attempt: 1, type: 'NOTE', msg: '' }];
      assertError(await send('POST', `/workers/${path}/events`, { body: { events } }), 403, detail);
    }
    const { body: workers } = await service.send('GET', '/workers');
    assert.deepEqual(workers.map(({ id }: { id: string }) => id).toSorted(), ['gpu/', 'gpu/a/b', 'one']);
  });

  test('executes a run from the claim to its end', async () => {
    const { id } = await admin.create({ priority: 9 });
    await mine.heartbeat('one');
    assert.equal((await mine.claim('one'))[0].id, id);
    const fence = { worker: 'one', attempt: 1 };
    bodyOf(
      await mine.report(id, { type: 'STARTED', msg: '', payload: { worker_id: 'one' } }, fence),
      'OpRun',
    );
    const events = [{ run_id: id, attempt: 1, type: 'PROGRESS', msg: 50 }];
    const listed = await send('POST', '/workers/one/events', { body: { events } });
    assert.deepEqual(listed.body, { results: [{ status: 204 }] });
    const headers = { 'X-Worker-Id': 'one', 'X-Run-Attempt': '1' };
    const chunk = { first_line: 0, lines: [], is_last: true };
    assert.equal((await send('PUT', `/runs/${id}/logs/0`, { headers, body: chunk })).status, 200);
    const done = await mine.report(id, { type: 'COMPLETED', msg: '', payload: { outputs: { a: 1 } } }, fence);
    assert.equal(bodyOf(done, 'OpRun').state, 'COMPLETED');
    for (const path of READS) assert.equal(await statusOf(id, path), 200, path);
  });

  test('must send the fencing headers with every report', async () => {
    const { id } = await admin.assigned({}, 'one');
    const note = { type: 'NOTE', msg: '' };
    assertInvalid(await mine.report(id, note), [missing('X-Worker-Id'), missing('X-Run-Attempt')]);
    assertInvalid(await mine.report(id, note, { worker: 'one' }), [missing('X-Run-Attempt')]);
    assertInvalid(await mine.report(id, note, { attempt: 1 }), [missing('X-Worker-Id')]);
    const body = { events: [{ run_id: id, ...note }] };
    const { body: listed } = await send('POST', '/workers/one/events', { body });
    assert.deepEqual(listed.results[0].error.errors, [
      'attempt is required with an API key that is bound to workers',
    ]);
    assert.deepEqual((await admin.get(id)).events, []);
    bodyOf(await mine.report(id, note, { worker: 'one', attempt: 1 }), 'OpRun');
  });

  test('reports and writes logs of no other worker’s runs', async () => {
    const { id } = await admin.assigned({}, 'two');
    const note = { type: 'NOTE', msg: '' };
    const chunk = { first_line: 0, lines: [], is_last: true };
    for (const [worker, status, detail] of [
      ['two', 403, "API key is not bound to worker 'two'"],
      ['one', 409, `Run '${id}' is not assigned to worker 'one'`],
    ] as const) {
      assertError(await mine.report(id, note, { worker, attempt: 1 }), status, detail);
      const headers = { 'X-Worker-Id': worker, 'X-Run-Attempt': '1' };
      assert.equal((await send('PUT', `/runs/${id}/logs/0`, { headers, body: chunk })).status, status);
    }
    assert.deepEqual((await admin.get(id)).events, []);
  });

  test('sees a run that its workers hold or held, whoever has it now, and no other', async () => {
    await admin.emptyQueue('two');
    const waiting = await admin.create({ inputs: { secret: 1 } });
    await admin.heartbeat('two');
    for (const path of READS) {
      assertError(await send('GET', `/runs/${waiting.id}${path}`), 404, `OpRun '${waiting.id}' not found`);
    }
    await admin.claimUntil(waiting.id, 'two');
    await endLog(waiting.id, 'two');
    for (const path of READS) assert.equal(await statusOf(waiting.id, path), 404, path);

    const { id } = await admin.assigned({}, 'gpu/7');
    await endLog(id, 'gpu/7');
    for (const path of READS) assert.equal(await statusOf(id, path), 200, path);
    await admin.event(id, 'RETRIED', { force: true });
    await admin.claimUntil(id, 'two');
    for (const path of READS.slice(0, 4)) assert.equal(await statusOf(id, path), 200, path);
    assert.equal(await statusOf(UNKNOWN, ''), 404);
    assert.equal(await statusOf('x', ''), 404);
  });

  test('still sees a run that an admin took from its worker, so that the worker can stop it', async () => {
    const { id } = await admin.assigned({}, 'one');
    const started = { type: 'STARTED', msg: '', payload: { worker_id: 'one' } };
    bodyOf(await mine.report(id, started, { worker: 'one', attempt: 1 }), 'OpRun');
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    assert.equal((await mine.get(id)).state, 'PENDING');
  });

  test('may also come from SERVICE_API_KEYS', async () => {
    const bound = senderTo(service.url, 'bound-key-of-the-settings');
    assert.deepEqual((await bound('GET', '/whoami')).body.worker_ids, ['one', 'gpu/*']);
    assert.equal((await bound('POST', '/workers/gpu%2F1/claim')).status, 200);
    assert.equal((await bound('POST', '/workers/two/claim')).status, 403);
  });
});
