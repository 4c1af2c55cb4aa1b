import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { issueKey } from '../../support/app/api-keys.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;

const PLAIN = {
  image: 'i',
  priority: 4,
  inputs: { list: [1] },
  outputs: { out: 1 },
  constraints: { ram_mb: 512, cpu_millis: 1500 },
  retry_policy: { max_attempts: 3, backoff_s: 2, grow: { ram_mb: { factor: 2, max: 4096 } } },
  timeouts: { attempt_s: 60 },
  event_delivery: { topic: 't', attributes: { a: 'b' } },
  env: { A: 'b' },
  args: ['x'],
  files: { '/f': { content: 'text' } },
  mounts: [{ volume: 'v', path: '/out', sub_path: 'runs/${run.id}' }],
  selector: ['gpu'],
  concurrency: { key: 'k', limit: 2 },
  labels: { team: 'a', draft: '1' },
};

/** What does not depend on which run it is. */
const asked = ({ id, createdAt: _c, updatedAt: _u, source: _s, rerun_of: _r, ...run }: Json): unknown =>
  JSON.parse(JSON.stringify(run).replaceAll(id, 'RUN'));

/** Why a run of this version is not repeated. */
const detail = (what: string): string =>
  `OpDefinition 'made' version 'old' was ${what} after the run was created: name a definition_version, or latest`;

describe('POST /runs/{id}/rerun', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const define = async (version: string, args: readonly unknown[]): Promise<void> => {
    const input_specs = { a: { type: 'string', required: true }, b: { type: 'string', default: 'std' } };
    const body = { id: 'made', version, image: 'i', input_specs, args, labels: { team: 'd', unit: 'u' } };
    const { status, text } = await service.send('POST', '/definitions', { body });
    assert.ok(status < 300, text);
  };
  beforeAll(() => define('1', ['${inputs.a}', '${inputs.b}', '${run.id}']));

  const ended = async (path: string, body: object): Promise<Json> => {
    const created = bodyOf(await service.send('POST', path, { body }), 'OpRun', 201);
    await service.send('PATCH', `/runs/${created.id}`, {
      body: { state: 'COMPLETED', outputs: { result: 1 } },
    });
    return created;
  };
  const rerun = async (id: string, body?: object, headers = {}): Promise<Json> =>
    bodyOf(await service.send('POST', `/runs/${id}/rerun`, { body, headers }), 'OpRun', 201);

  test('creates a run with everything that the first one was asked for, by its own caller', async () => {
    const first = await ended('/runs', PLAIN);
    const again = await rerun(first.id);
    assert.deepEqual(asked(again), asked(first));
    assert.deepEqual([first.source, first.rerun_of], [null, null]);
    assert.deepEqual([again.source, again.rerun_of], ['rerun', first.id]);
    const key = await issueKey(service, ['client']);
    const { body } = await service.send('POST', `/runs/${first.id}/rerun`, { key: key.key });
    assert.deepEqual(body.created_by, { key_id: key.id, key_name: key.name });
  });

  test('keeps numbers of inputs to the digit', async () => {
    const text = '{"image": "i", "inputs": {"n": 12345678901234567890.10}}';
    const { body: first } = await service.send('POST', '/runs', {
      body: text,
      headers: { 'Content-Type': 'application/json' },
    });
    await service.send('POST', `/runs/${first.id}/cancel`);
    const answer = await service.send('POST', `/runs/${first.id}/rerun`);
    assert.match(answer.text, /12345678901234567890\.10/);
  });

  test('does not take over name, start, attempts and results', async () => {
    const first = await ended('/runs', { image: 'i', name: 'n', start_at: '2020-01-01T00:00:00Z' });
    const { name, start_at: start, state, outputs } = await rerun(first.id);
    assert.deepEqual([name, start, state, outputs], [null, null, 'PENDING', {}]);
  });

  test('replaces fields as a whole, merges labels, and null is as if it had not been given', async () => {
    const first = await ended('/runs', PLAIN);
    const changes = {
      constraints: { ram_mb: 1024 },
      env: null,
      labels: { draft: null, more: 'm' },
      name: 'n',
    };
    const again = await rerun(first.id, { changes: { ...changes, retry_policy: null } });
    assert.deepEqual(again.constraints, { ram_mb: 1024, vram_mb: 0, cpu: 0, gpu_id: null });
    assert.deepEqual([again.env, again.name, again.args], [{}, 'n', ['x']]);
    assert.deepEqual(again.labels, { team: 'a', more: 'm' });
    assert.deepEqual(again.retry_policy, { max_attempts: 1 });
  });

  test('of a run of a definition expands its arguments anew, with changed inputs and its own id', async () => {
    const first = await ended('/definitions/made/runs', { inputs: { a: '1' }, labels: { team: 'r' } });
    const again = await rerun(first.id, { changes: { inputs: { a: '2' }, labels: { unit: null } } });
    assert.deepEqual(again.args, ['2', 'std', again.id]);
    assert.deepEqual([again.op_definition, again.op_definition_version], ['made', '1']);
    assert.deepEqual(again.labels, { team: 'r' });
    await service.send('POST', `/runs/${again.id}/cancel`);
    const next = await rerun(again.id);
    assert.deepEqual([next.args, next.labels], [['2', 'std', next.id], { team: 'r' }]);
  });

  test('of a replaced or deleted version is refused, until a version is named', async () => {
    await define('old', ['${inputs.a}']);
    const first = await ended('/definitions/made/runs?version=old', { inputs: { a: '1' } });
    await define('old', ['new', '${inputs.a}']);
    const refused = await service.send('POST', `/runs/${first.id}/rerun`);
    assertError(refused, 409, detail('replaced'));
    assert.deepEqual((await rerun(first.id, { definition_version: 'old' })).args, ['new', '1']);
    await service.send('DELETE', '/definitions/made?version=old');
    assertError(await service.send('POST', `/runs/${first.id}/rerun`), 409, detail('deleted'));
    const latest = await rerun(first.id, { definition_version: 'latest' });
    assert.deepEqual([latest.op_definition_version, latest.args[0]], ['1', '1']);
    const unknown = await service.send('POST', `/runs/${first.id}/rerun`, {
      body: { definition_version: 'x' },
    });
    assertError(unknown, 404, "OpDefinition 'made' version 'x' not found");
  });

  test('is refused for a run that has not ended, is unknown, or where a change is wrong', async () => {
    const { id } = await steps.create();
    const running = await service.send('POST', `/runs/${id}/rerun`);
    assertError(running, 409, 'Run is PENDING: only a run that has ended is repeated');
    await service.send('POST', `/runs/${id}/cancel`);
    const wrong = async (body: object): Promise<Json> => service.send('POST', `/runs/${id}/rerun`, { body });
    assertInvalid(await wrong({ definition_version: 'latest' }), [
      'definition_version must be absent for a run without a definition',
    ]);
    assertInvalid(await wrong({ image: 'j' }), ['image is not a known field']);
    assertInvalid(await wrong({ changes: { imagee: 'j' } }), [
      'imagee is not a known field: did you mean image?',
    ]);
    assert.equal((await wrong({ changes: { image: null } })).status, 400);
    const nobody = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
    assertError(await service.send('POST', `/runs/${nobody}/rerun`), 404, `OpRun '${nobody}' not found`);
    assert.deepEqual((await service.send('GET', `/runs?rerun_of=${id}`)).body.data, []);
  });

  test('with one idempotency key creates one run, also when sent at the same time, or after the run goes on', async () => {
    const first = await ended('/runs', { image: 'i' });
    const headers = { 'Idempotency-Key': 'again' };
    const answers = await Promise.all([1, 2, 3].map(() => rerun(first.id, {}, headers)));
    const [id] = new Set(answers.map((run) => run.id));
    await service.send('POST', `/runs/${first.id}/retry`);
    assert.equal((await rerun(first.id, {}, headers)).id, id);
    const listed = await service.send('GET', `/runs?rerun_of=${first.id}`);
    assert.deepEqual(
      listed.body.data.map((run: Json) => run.id),
      [id],
    );
  });
});
