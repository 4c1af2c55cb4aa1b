import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const NOBODY = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';
const PROBLEM =
  'must be the id of a file, or {"$artifact": {"file": ID}} or {"$artifact": {"run": ID, "name": NAME}}';

describe('an input of the type file', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  const groups = new GroupSteps(service);
  let made = 0;

  const store = (options: object) =>
    service.send('POST', '/definitions', {
      body: { id: `file-${(made += 1)}`, version: '1', image: 'i', ...options },
    });
  /** The path of a new definition. */
  const define = async (spec: object, options: object = {}): Promise<string> => {
    const answer = await store({ input_specs: { data: { type: 'file', ...spec } }, ...options });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.headers.get('Warning'), null);
    return `/definitions/${answer.body.id}`;
  };
  const runOf = (definition: string, inputs: object = {}) =>
    service.send('POST', `${definition}/runs`, { body: { inputs } });
  const cancel = (id: string) => service.send('POST', `/runs/${id}/cancel`, { body: {} });

  test('is given by the id of a file or a reference, and the worker gets a URL of its content', async () => {
    const definition = await define({ required: true });
    const { id: file } = await files.stored('a,b\n');
    const reference = { $artifact: { file } };
    const out = { o: { path: '/o' } };
    const body = { inputs: { data: file }, artifacts: { out } };
    const run = bodyOf(await service.send('POST', `${definition}/runs`, { body }), 'OpRun', 201);
    assert.deepEqual(run.inputs, { data: reference });
    const op = await files.execute({ o: new Uint8Array(1) });
    assert.equal(await (await fetch(op.inputs.data)).text(), 'a,b\n');
    const again = bodyOf(await service.send('POST', `/runs/${run.id}/rerun`, { body: {} }), 'OpRun', 201);
    const other = bodyOf(await runOf(definition, { data: reference }), 'OpRun', 201);
    assert.deepEqual([again.inputs, other.inputs], [{ data: reference }, { data: reference }]);
    assert.equal((await files.get(file)).used_by, 3);
    await Promise.all([again, other].map(({ id }) => cancel(id)));
  });

  test('may be what a run has left', async () => {
    const body = { image: 'i', artifacts: { out: { model: { path: '/m' } } } };
    const { id } = bodyOf(await service.send('POST', '/runs', { body }), 'OpRun', 201);
    await files.execute({ model: new TextEncoder().encode('weights') });
    const definition = await define({});
    const data = { $artifact: { run: id, name: 'model' } };
    const run = bodyOf(await runOf(definition, { data }), 'OpRun', 201);
    assert.deepEqual(run.inputs, { data });
    await cancel(run.id);
    assertInvalid(await runOf(definition, { data: { $artifact: { run: id, name: 'other' } } }), [
      `inputs: run '${id}' has no artifact 'other'`,
    ]);
  });

  test.each([
    ['a text of another form', 'train.csv'],
    ['a number', 5],
    ['a reference with a member too many', { $artifact: { file: NOBODY, name: 'x' } }],
    ['a reference beside another member', { $artifact: { file: NOBODY }, more: 1 }],
    ['the name of an artifact', { $artifact: 'model' }],
    ['a list', [NOBODY]],
  ])('is refused as %s', async (_what, data) => {
    assertError(await runOf(await define({}), { data }), 400, 'Invalid inputs', [`inputs.data ${PROBLEM}`]);
    assertInvalid(await store({ input_specs: { data: { type: 'file', default: data } } }), [
      `input_specs.data.default ${PROBLEM}`,
    ]);
  });

  test('is refused as a file that does not exist or is not uploaded yet', async () => {
    const definition = await define({});
    assertInvalid(await runOf(definition, { data: NOBODY }), ['inputs: there is no such file']);
    const { id } = (await files.create({ name: 'f', bytes: 3 })).body;
    assertInvalid(await runOf(definition, { data: id }), ['inputs: the file is not uploaded yet']);
  });

  test('has a default, whose file is kept as long as the version exists', async () => {
    const { id: file } = await files.stored('a');
    const definition = await define({ default: file });
    const reference = { $artifact: { file } };
    assert.deepEqual((await service.send('GET', definition)).body.input_specs.data.default, reference);
    assert.equal((await files.get(file)).used_by, 1);
    const run = bodyOf(await runOf(definition), 'OpRun', 201);
    assert.deepEqual(run.inputs, { data: reference });
    assert.equal((await files.get(file)).used_by, 2);
    await cancel(run.id);
    const missing = await store({ input_specs: { data: { type: 'file', default: NOBODY } } });
    assertInvalid(missing, [`input_specs: there is no file '${NOBODY}'`]);
    assert.equal((await service.send('GET', `/definitions/file-${made}`)).status, 404);
  });

  test('has no limits of texts and numbers', async () => {
    const data = { type: 'file', enum: [NOBODY], minimum: 1, max_length: 36 };
    assertInvalid(await store({ input_specs: { data } }), [
      'input_specs.data.minimum needs the type integer or number',
      'input_specs.data.max_length needs the type string',
      'input_specs.data.enum is not for the type file',
    ]);
  });

  test('cannot stand in arguments and variables: its URL is made for the worker alone', async () => {
    const { id: file } = await files.stored('a');
    const problem =
      'command, args, env and mounts must not refer to ${inputs.data}: it is a file, whose URL stands in the input file';
    for (const options of [
      { args: ['--in=${inputs.data}'] },
      { args: [{ flag: '--in', input: 'data' }] },
      { env: { DATA: '${inputs.data}' } },
    ]) {
      const definition = await define({}, options);
      assertError(await runOf(definition, { data: file }), 400, 'Invalid inputs', [problem]);
      const run = bodyOf(await runOf(definition), 'OpRun', 201);
      await cancel(run.id);
    }
    const untyped = await store({ args: ['${inputs.x}'], input_specs: { x: { type: 'string' } } });
    const { id } = untyped.body;
    const answer = await runOf(`/definitions/${id}`, { x: { $artifact: { file } } });
    assertError(answer, 400, 'Invalid inputs', [problem.replace('data', 'x')]);
  });

  test('counts as a string where a text is declared, and as nothing else', async () => {
    const { id: file } = await files.stored('a');
    const data = { $artifact: { file } };
    const run = bodyOf(await runOf(await define({ type: 'string' }), { data }), 'OpRun', 201);
    assert.deepEqual(run.inputs, { data });
    await cancel(run.id);
    assertError(await runOf(await define({ type: 'object' }), { data }), 400, 'Invalid inputs', [
      'inputs.data must be an object',
    ]);
  });

  test('is given by its id in bodies of groups and schedules too, which keep the file', async () => {
    const { id: file } = await files.stored('a');
    const definition = (await define({})).split('/').at(-1);
    const run = { definition, inputs: { data: file } };
    const group = { runs: [{ ref: 'a', ...run }] };
    const answer = await service.send('POST', '/groups', { body: group });
    assert.equal(answer.status, 201, answer.text);
    const { body: listed } = await service.send('GET', `/runs?group=${answer.body.id}`);
    const [member] = listed.data;
    assert.deepEqual((await service.send('GET', `/runs/${member.id}`)).body.inputs, {
      data: { $artifact: { file } },
    });
    await cancel(member.id);
    const schedule = { cron: ['0 5 * * *'], timezone: 'Etc/UTC', run };
    const put = await service.send('PUT', '/schedules/with-file', { body: schedule });
    assert.equal(put.status, 201, put.text);
    assert.equal((await files.get(file)).used_by, 2);
    const wrong = { ...schedule, run: { ...run, inputs: { data: NOBODY } } };
    assertInvalid(await service.send('PUT', '/schedules/with-none', { body: wrong }), [
      'run: inputs: there is no such file',
    ]);
  });

  test('may be the id of a file in the outputs of a run before, and is kept for the run then', async () => {
    const { id: file } = await files.stored('a,b\n');
    const definition = (await define({})).split('/').at(-1);
    const out = { o: { path: '/o' } };
    const from = { $from: { ref: 'a', output: '/table' } };
    const runs = [
      { ref: 'a', image: 'i', artifacts: { out } },
      { ref: 'b', definition, depends_on: [{ ref: 'a' }], inputs: { data: from }, artifacts: { out } },
    ];
    const group = await groups.create({ runs });
    await files.execute({ o: new Uint8Array(1) }, { outputs: { table: file } });
    await groups.untilReady((await groups.members(group.id)).get('b').id);
    const op = await files.execute({ o: new Uint8Array(1) });
    assert.equal(await (await fetch(op.inputs.data)).text(), 'a,b\n');
    assert.deepEqual((await service.send('GET', `/runs/${op.id}`)).body.inputs, {
      data: { $artifact: { file } },
    });
    assert.equal((await files.get(file)).used_by, 1);
  });
});
