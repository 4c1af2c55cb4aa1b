import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const KIB_32 = 32 * 1024;
const SPECS = {
  text: { type: 'string' },
  n: { type: 'number' },
  on: { type: 'boolean' },
  list: { type: 'array' },
  any: { type: 'object', default: { a: [1, 'b c'] } },
};

const service = useTestApp();
let made = 0;

const store = (options: object): Promise<TestAnswer> => {
  made += 1;
  const body = { id: `def-${made}`, version: '1', image: 'i', input_specs: SPECS, ...options };
  return service.send('POST', '/definitions', { body });
};
/** The path of a new definition. */
const define = async (options: object): Promise<string> => {
  const answer = await store(options);
  assert.equal(answer.status, 201, answer.text);
  return `/definitions/${answer.body.id}`;
};
const runOf = (definition: string, body: object | string = {}): Promise<TestAnswer> =>
  service.send('POST', `${definition}/runs`, { body });
const preview = (definition: string, body: object, headers = {}): Promise<TestAnswer> =>
  service.send('POST', `${definition}/runs?dry_run=true`, { body, headers, key: KEYS.client });

describe('references in command, args and env of a definition', () => {
  test('are replaced when a run is created, which stores and shows the result; the definition shows its text', async () => {
    const options = {
      command: ['tool', '--run=${run.id}'],
      args: [
        '${inputs.text}',
        { flag: '--on', input: 'on' },
        { flag: '-n', input: 'n', join: '' },
        '$${HOME}',
      ],
      env: { ANY: '${inputs.any}', GONE: '${inputs.list}', PLAIN: 'x' },
    };
    const definition = await define(options);
    const { body: shown } = await service.send('GET', definition);
    assert.deepEqual({ command: shown.command, args: shown.args, env: shown.env }, options);
    const text = '$(id) `id`\n"\' ${run.id} $${x} ünï 👩‍🚀';
    const run = bodyOf(
      await runOf(
        definition,
        `{"inputs":{"text":${JSON.stringify(text)},"n":12345678901234567891.0,"on":true}}`,
      ),
      'OpRun',
      201,
    );
    const { command, args, env } = bodyOf(await service.send('GET', `/runs/${run.id}`), 'OpRun');
    assert.deepEqual(command, ['tool', `--run=${run.id}`]);
    assert.deepEqual(args, [text, '--on', '-n12345678901234567891.0', '${HOME}']);
    assert.deepEqual(env, { ANY: '{"a":[1,"b c"]}', PLAIN: 'x' });
  });

  test('reach the claim of a worker as a plain list of strings', async () => {
    const definition = await define({
      args: ['a', { flag: '--in', input: 'list' }],
      selector: ['templates'],
    });
    const { body: run } = await runOf(definition, { inputs: { list: ['x y', 2] } });
    const steps = new RunSteps(service.send);
    await steps.heartbeat('w', { tags: ['templates'], capabilities: ['command'] });
    const claimed = new Map((await steps.claim('w')).map(({ id, args }) => [id, args]));
    assert.deepEqual(claimed.get(run.id), ['a', '--in', 'x y', '--in', '2']);
  });

  test('are plain text in the body of a run, of a definition or not, which wins over the definition', async () => {
    const plain = { args: ['${inputs.text}', '$${x}'], env: { A: '${inputs.gone}' } };
    const definition = await define({
      args: ['${inputs.text}'],
      env: { A: '${inputs.text}', B: '${inputs.text}' },
    });
    const { body: run } = await runOf(definition, { ...plain, inputs: { text: 't' } });
    assert.deepEqual([run.args, run.env], [plain.args, { A: '${inputs.gone}', B: 't' }]);
    const { body: single } = await service.send('POST', '/runs', { body: { image: 'i', ...plain } });
    assert.deepEqual([single.args, single.env], [plain.args, plain.env]);
    const flag = { args: [{ flag: '-a', input: 'text' }] };
    for (const [path, body] of [
      ['/runs', { image: 'i', ...flag }],
      [`${definition}/runs`, flag],
    ] as const) {
      assertInvalid(await service.send('POST', path, { body }), [
        'args must be a list of at most 100 items, each a string of at most 4096 characters',
      ]);
    }
  });

  test('are refused when nothing can replace them, or in code, with a line for each; nothing is stored', async () => {
    const refused = await store({
      command: ['sh'],
      args: ['-ec', 'echo ${inputs.text}', '${inputs.modle}', '${HOME}'],
      env: { A: '${array.rank}' },
    });
    const known =
      'only ${inputs.NAME}, ${run.id}, ${run.name}, ${group.id}, ${array.index}, ${array.size}, ${schedule.time}, ' +
      '${schedule.date}, ${schedule.previous} and ${schedule.next} are replaced; $${ is a literal ${';
    assertInvalid(refused, [
      'args[2]: ${inputs.modle}: no such input',
      `args[3]: \${HOME}: unknown, ${known}`,
      `env.A: \${array.rank}: unknown, ${known}`,
    ]);
    assert.equal((await service.send('GET', `/definitions/def-${made}`)).status, 404);
    assertInvalid(await store({ command: ['sh'], args: ['-ec', 'echo ${inputs.text}'] }), [
      'args[1]: ${inputs.text}: would become code of sh: pass it in env and use "$NAME"',
    ]);
    assertInvalid(await store({ input_specs: {}, args: ['${inputs.text}'] }), [
      'args[0]: ${inputs.text}: no such input',
    ]);
    assert.equal((await store({ input_specs: {}, args: ['${run.id}'] })).status, 201);
  });

  test('have flags of a known form', async () => {
    const list = 'args must be a list of at most 100 items, each a string of at most 4096 characters';
    for (const [flag, problem] of [
      [5, list],
      [null, list],
      [['a'], list],
      ['x'.repeat(4097), list],
      [{ input: 'text' }, 'args[1].flag is required'],
      [{ flag: '-a' }, 'args[1].input is required'],
      [{ flag: '', input: 'text' }, 'args[1].flag must be a string without ${ of 1 to 256 characters'],
      [
        { flag: '${run.id}', input: 'text' },
        'args[1].flag must be a string without ${ of 1 to 256 characters',
      ],
      [
        { flag: '-a', input: 'text', join: '${x}' },
        'args[1].join must be a string without ${ of at most 256 characters',
      ],
      [
        { flag: '-a', input: 'text', joint: '=' },
        'args[1].joint is not a known field: did you mean args[1].join?',
      ],
      [{ flag: '-a', input: 'gone' }, 'args[1].input: ${inputs.gone}: no such input'],
    ] as const) {
      assertInvalid(await store({ args: ['a', flag] }), [problem]);
    }
    assertInvalid(await store({ args: 'a' }), [list]);
    assertInvalid(await store({ command: [{ flag: '-a', input: 'text' }] }), [
      'command must be a list of at most 100 items, each a string of at most 4096 characters',
    ]);
    const { body } = await store({ args: [{ flag: '-a', input: 'text', join: null }] });
    assert.deepEqual(body.args, [{ flag: '-a', input: 'text' }]);
  });

  test('must result in arguments and variables within the limits', async () => {
    const list = 'must be a list of at most 100 items, each a string of at most 4096 characters';
    const words = await define({ command: ['${inputs.text}'], args: [{ flag: '-a', input: 'list' }] });
    const long = { text: 'x'.repeat(4096), list: Array.from({ length: 50 }, () => 1) };
    assert.equal((await runOf(words, { inputs: long })).status, 201);
    assertInvalid(await runOf(words, { inputs: { text: 'x'.repeat(4097), list: [...long.list, 1] } }), [
      `command ${list}`,
      `args ${list}`,
    ]);
    const variables = await define({ env: { A: '${inputs.text}' } });
    assertInvalid(await runOf(variables, { inputs: { text: 'x'.repeat(KIB_32) } }), [
      `env must have at most ${KIB_32} bytes of names and values`,
    ]);
    const own = await runOf(words, { inputs: { text: 'x'.repeat(5000) }, command: ['own'] });
    assert.deepEqual([own.status, own.body.command], [201, ['own']]);
  });
});

describe('POST /definitions/{name}/runs?dry_run=true', () => {
  test('answers with the run that would be created, and creates nothing', async () => {
    const definition = await define({ args: ['${inputs.text}', '${run.id}'], env: { A: '${inputs.n}' } });
    const count = async (): Promise<number> =>
      (await service.send('GET', `/runs?op_definition=def-${made}`)).body.data.length;
    const body = { inputs: { text: 'x y', n: 1 }, priority: 3, env: { B: 'b' } };
    const shown = bodyOf(await preview(definition, body), 'OpRunPreview');
    assert.deepEqual([shown.args, shown.env], [['x y', shown.id], { A: '1', B: 'b' }]);
    assert.equal(await count(), 0);
    assert.equal((await service.send('GET', `/runs/${shown.id}`)).status, 404);
    const run = bodyOf(await runOf(definition, body), 'OpRun', 201);
    const { id, args, createdAt: _, updatedAt: __, created_by: ___, ...others } = run;
    assert.deepEqual([args, { ...shown, ...others }], [['x y', id], shown]);
    assert.equal(await count(), 1);
  });

  test('uses no idempotency key', async () => {
    const definition = await define({ args: ['${inputs.text}'] });
    const headers = { 'Idempotency-Key': 'dry' };
    assert.equal((await preview(definition, { inputs: { text: 'a' } }, headers)).status, 200);
    assert.equal((await preview(definition, { inputs: { text: 'b' } }, headers)).status, 200);
    const created = await service.send('POST', `${definition}/runs`, { body: {}, headers });
    assert.deepEqual([created.status, created.headers.get('idempotency-replayed')], [201, null]);
    assertInvalid(await preview(definition, { args: 1 }, headers), [
      'args must be a list of at most 100 items, each a string of at most 4096 characters',
    ]);
  });

  test('has the errors of the creation', async () => {
    const definition = await define({ input_specs: { a: { type: 'integer', required: true } } });
    for (const [path, body] of [
      [definition, {}],
      [definition, { inputs: { a: 'x', b: 1 } }],
      ['/definitions/none', {}],
      [definition, { inputs: { a: 1 }, secrets: { A: 's' }, env: { A: 'e' } }],
    ] as const) {
      const created = await runOf(path, body);
      const previewed = await preview(path, body);
      assert.ok(created.status >= 400);
      assert.deepEqual([previewed.status, previewed.body], [created.status, created.body]);
    }
    assertInvalid(await service.send('POST', `${definition}/runs?dry_run=yes`, { body: {} }), [
      'dry_run must be true or false',
    ]);
    assertError(
      await service.send('POST', `${definition}/runs?dry_run=true`, { body: {}, key: KEYS.worker }),
      403,
      "API key lacks scope 'client'",
    );
  });
});
