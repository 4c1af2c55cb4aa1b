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

  test('of another version takes its defaults and what it says of options, but what the request gave wins', async () => {
    const given = {
      inputs: { a: '1' },
      env: { A: 'a' },
      priority: 3,
      outputs: { o: 1 },
      constraints: { cpu: 2 },
    };
    const first = await ended('/definitions/made/runs?version=1', given);
    const input_specs = { a: { type: 'string' }, b: { type: 'string', default: 'other' } };
    const version = {
      id: 'made',
      version: 'next',
      image: 'j',
      input_specs,
      constraints: { cpu: 1, ram_mb: 9 },
    };
    await service.send('POST', '/definitions', { body: { ...version, env: { A: 'b', B: 'b' } } });
    const again = await rerun(first.id, { definition_version: 'next' });
    assert.deepEqual(again.inputs, { a: '1', b: 'other' });
    assert.deepEqual([again.image, again.env, again.priority], ['j', { A: 'a', B: 'b' }, 3]);
    assert.deepEqual([again.outputs, again.constraints.cpu, again.constraints.ram_mb], [{ o: 1 }, 2, 9]);
    await service.send('DELETE', '/definitions/made?version=next');
  });

  test('does not take over a priority that was changed after the request for a run of a definition', async () => {
    const first = await ended('/definitions/made/runs', { inputs: { a: '1' } });
    await service.send('PATCH', `/runs/${first.id}`, { body: { priority: 50 } });
    assert.equal((await rerun(first.id)).priority, 0);
  });

  test('of a replaced or deleted version repeats the run as it was, with its own id; inputs need a version', async () => {
    await define('old', ['${inputs.a}', '${run.id}', '$${inputs.a}']);
    const given = {
      inputs: { a: '1' },
      labels: { team: 'r' },
      priority: 2,
      constraints: { ram_mb: 64, cpu: 1 },
    };
    const first = await ended('/definitions/made/runs?version=old', given);
    const replaced = async (): Promise<void> => {
      const again = await rerun(first.id);
      assert.deepEqual(asked(again), asked(first));
      assert.deepEqual(again.args, ['1', again.id, '${inputs.a}']);
      const changes = { constraints: { ram_mb: 128 }, labels: { unit: null } };
      const more = await rerun(first.id, { changes });
      assert.deepEqual([more.constraints.ram_mb, more.constraints.cpu, more.labels], [128, 1, { team: 'r' }]);
      await service.send('POST', `/runs/${more.id}/cancel`);
      assert.deepEqual((await rerun(more.id)).constraints, more.constraints);
      const body = { changes: { inputs: { a: '2' }, env: null } };
      assertError(
        await service.send('POST', `/runs/${first.id}/rerun`, { body }),
        409,
        "OpDefinition 'made' version 'old' was replaced or deleted after the run was created: " +
          'to change inputs, env, name a definition_version, or latest',
      );
    };
    await define('old', ['new', '${inputs.a}']);
    await replaced();
    assert.deepEqual((await rerun(first.id, { definition_version: 'old' })).args, ['new', '1']);
    await service.send('DELETE', '/definitions/made?version=old');
    await replaced();
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

  test('with dry_run=true shows the run and the workers for it, with the same errors, and creates none', async () => {
    const first = await ended('/runs', PLAIN);
    const body = { changes: { priority: 9, env: { B: '${inputs.a}' } } };
    const shown = await service.send('POST', `/runs/${first.id}/rerun?dry_run=true`, { body });
    const preview = bodyOf(shown, 'OpRunPreview');
    assert.match(shown.headers.get('warning') ?? '', /env\.B: \$\{inputs\.a\} is plain text here/);
    assert.deepEqual([preview.priority, preview.rerun_of, preview.able_workers], [9, first.id, 0]);
    assert.deepEqual(preview.args, first.args);
    const wrong = { changes: { imagee: 'j' } };
    const refused = await service.send('POST', `/runs/${first.id}/rerun?dry_run=true`, { body: wrong });
    assertInvalid(refused, ['imagee is not a known field: did you mean image?']);
    const { body: after } = await service.send('GET', `/runs/${first.id}`);
    assert.equal(after.reruns, 0);
    assert.deepEqual((await service.send('GET', `/runs?rerun_of=${first.id}`)).body.data, []);
  });

  test('is counted by the run that it repeats, also at the same time, and changes its entity tag', async () => {
    const first = await ended('/runs', { image: 'i' });
    const read = () => service.send('GET', `/runs/${first.id}`);
    const tag = (await read()).headers.get('etag');
    const label = service.send('PATCH', `/runs/${first.id}/labels`, { body: { labels: { a: 'b' } } });
    const made = await Promise.all([1, 2, 3, 4].map(() => rerun(first.id)));
    assert.equal((await label).status, 200);
    const counted = await read();
    assert.notEqual(counted.headers.get('etag'), tag);
    assert.deepEqual([counted.body.reruns, made.map(({ reruns }) => reruns)], [4, [0, 0, 0, 0]]);
    const page = await service.send('GET', `/runs?rerun_of=${first.id}&limit=3`);
    assert.deepEqual([page.body.data.length, page.body.has_more], [3, true]);
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
