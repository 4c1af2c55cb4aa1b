import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { OBJECTS_REFUSED, OBJECTS_TAKEN, pathOf, SECRET_RULE } from '../../support/runs/object-options.js';
import { numbered, variables } from '../../support/runs/run-options.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const KIB_32 = 32 * 1024;
const VARIABLE_RULE = 'must have as name letters, digits and _, not starting with a digit or SERVICE_';
const LIST_RULE = 'must be a list of at most 100 items, each a string of at most 4096 characters';
const TAGS_RULE = 'must be a list of at most 20 items, each a string of 1 to 128 characters';
const KEY_RULE = 'concurrency.key must be a string without control characters of 1 to 255 characters';
const LIMIT_RULE = 'concurrency.limit must be an integer from 1 to 10000';
const RETRY_RULE =
  'retry_policy.retry_on must be a list of at most 100 items, each one of exit, oom, timeout, image, error, ' +
  'exit:N or exit:N-M (exit codes from 0 to 255, N <= M)';

/** What is sent, and what the run or the definition then shows. Absent: the same. */
const TAKEN: readonly (readonly [title: string, sent: object, shown?: object])[] = [
  ['no variable', { env: {} }],
  [
    'names of all characters that are allowed',
    { env: { _: '', a: '', A_9: '', SERVICE: '', service_x: '' } },
  ],
  ['values of any text', { env: { A: '', B: ' \t\n\r\u0001=$"\\', C: '日本語😀' } }],
  ['100 variables', { env: variables(100) }],
  ['32 KiB of variables', { env: { A: 'x'.repeat(KIB_32 - 1) } }],
  ['32 KiB of variables, counted in UTF-8', { env: { Ab: '€'.repeat((KIB_32 - 2) / 3) } }],
  ['a command and arguments', { command: ['python', '-c', ''], args: ['--a=b', 'c d\n'] }],
  ['100 arguments', { args: Array<string>(100).fill('x'.repeat(2000)) }],
  ['an argument of 4096 characters, counted as people count them', { args: ['😀'.repeat(4096)] }],
  ['an empty command, which is none', { command: [], args: [] }, { command: null, args: null }],
  ['no secret', { secrets: {} }],
  ['secrets by variable', { secrets: { TOKEN: 'hub-token', _: 'A.b_c-9', B: 's'.repeat(128) } }],
  ['100 secrets', { secrets: variables(100, 'name') }],
  ...OBJECTS_TAKEN,
  ['a secret of the registry', { image_pull_secret: 'hub-login' }],
  ['a working directory', { workdir: '/' }],
  ['a working directory of 512 characters', { workdir: `/${'😀'.repeat(511)}` }],
  ...['0', '1000', '1000:0', '2147483647:2147483647'].map((user) => [`user ${user}`, { user }] as const),
  ...[0, 3600].map((stop_grace_s) => [`${stop_grace_s} s to stop`, { stop_grace_s }] as const),
  ...['none', 'a', `a${'-'.repeat(61)}9`].map((network) => [`network ${network}`, { network }] as const),
  ['no tag', { selector: [] }],
  ['20 tags, in their order and repeated', { selector: [...numbered(19, 'tag'), 'tag0'] }],
  ['a tag of 128 characters', { selector: ['😀'.repeat(128), 't', 'a,b', ' '] }],
  ['the smallest limit', { concurrency: { key: 'k', limit: 1 } }],
  ['the largest limit', { concurrency: { key: '😀'.repeat(255), limit: 10_000 } }],
  ['causes and exit codes', policy(['error', 'exit', 'oom', 'timeout', 'image', 'exit:0', 'exit:7-255'])],
  ['no failure to be retried', policy([])],
  [
    'null for every option',
    {
      env: null,
      command: null,
      args: null,
      secrets: null,
      secrets_from: null,
      files: null,
      image_pull_secret: null,
      workdir: null,
      user: null,
      network: null,
      stop_grace_s: null,
      selector: null,
      concurrency: null,
      retry_policy: { retry_on: null },
    },
    {
      env: {},
      command: null,
      args: null,
      secrets: {},
      secrets_from: [],
      files: {},
      image_pull_secret: null,
      workdir: null,
      user: null,
      network: null,
      stop_grace_s: 10,
      selector: [],
      concurrency: null,
      retry_policy: { max_attempts: 1 },
    },
  ],
];

/** What is refused, and the lines that say so. */
const REFUSED: readonly (readonly [title: string, sent: object, errors: readonly string[]])[] = [
  ...[[], 'A=1', 1].map((env) => [`env ${JSON.stringify(env)}`, { env }, ['env must be an object']] as const),
  ...['1A', 'A-B', 'Ä', 'SERVICE_X', 'SERVICE_', 'A B', 'A=', 'A\n'].flatMap((name) =>
    (['env', 'secrets'] as const).map(
      (field) =>
        [
          `the variable ${JSON.stringify(name)} of ${field}`,
          { [field]: { OK: 'ok', [name]: 'x' } },
          [`${field}${pathOf(name)} ${VARIABLE_RULE}`],
        ] as const,
    ),
  ),
  ['an empty name of a variable', { env: { '': 'x' } }, [`env[""] ${VARIABLE_RULE}`]],
  ...[1, true, null, ['x'], {}].map(
    (value) =>
      [`the value ${JSON.stringify(value)}`, { env: { A: value } }, ['env.A must be a string']] as const,
  ),
  ['101 variables', { env: variables(101) }, ['env must be an object of at most 100 entries']],
  [
    'variables of more than 32 KiB',
    { env: { A: 'x'.repeat(KIB_32) } },
    [`env must have at most ${KIB_32} bytes of names and values`],
  ],
  [
    'variables of more than 32 KiB in UTF-8',
    { env: { Abc: '€'.repeat((KIB_32 - 2) / 3) } },
    [`env must have at most ${KIB_32} bytes of names and values`],
  ],
  ...['command', 'args'].flatMap((field) =>
    ['x', [1], [null], Array<string>(101).fill(''), ['x'.repeat(4097)]].map(
      (value) =>
        [
          `${field} ${JSON.stringify(value).slice(0, 20)}`,
          { [field]: value },
          [`${field} ${LIST_RULE}`],
        ] as const,
    ),
  ),
  ...['', '-a', '.', 'a b', 'a/b', 's'.repeat(129)].flatMap((name) => [
    [`the secret ${JSON.stringify(name)}`, { secrets: { A: name } }, [`secrets.A ${SECRET_RULE}`]] as const,
    [
      `the login ${JSON.stringify(name)}`,
      { image_pull_secret: name },
      [`image_pull_secret ${SECRET_RULE}`],
    ] as const,
  ]),
  ...OBJECTS_REFUSED,
  ...['', 'work', './work', '/a\nb', `/${'a'.repeat(512)}`, 1].map(
    (workdir) =>
      [
        `the working directory ${JSON.stringify(workdir).slice(0, 20)}`,
        { workdir },
        ['workdir must be an absolute path of at most 512 characters'],
      ] as const,
  ),
  ...['', 'root', '01', '1:', ':1', '1:2:3', '-1', '10000000000', 1000].map(
    (user) =>
      [
        `user ${JSON.stringify(user)}`,
        { user },
        ['user must be the number of a user, or those of a user and a group as 1000:1000'],
      ] as const,
  ),
  ...['2147483648', '0:9999999999'].map(
    (user) => [`user ${user}`, { user }, ['user must have numbers of at most 2147483647']] as const,
  ),
  ...['', 'A', '-a', 'a-', 'a_b', 'a'.repeat(64), 1].map(
    (network) =>
      [
        `network ${JSON.stringify(network)}`,
        { network },
        [
          'network must be a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit',
        ],
      ] as const,
  ),
  ['the network of the host', { network: 'host' }, ['network must not be host']],
  ...[-1, 3601, 0.5, '10'].map(
    (stop_grace_s) =>
      [
        `${stop_grace_s} s to stop`,
        { stop_grace_s },
        ['stop_grace_s must be an integer from 0 to 3600'],
      ] as const,
  ),
  ['101 secrets', { secrets: variables(101, 'name') }, ['secrets must be an object of at most 100 entries']],
  [
    'a variable that is also a secret',
    { env: { A: '1', B: '2' }, secrets: { C: 's', B: 's' } },
    ['secrets.B must not be in env as well'],
  ],
  ...['gpu', [''], [1], ['x'.repeat(129)], numbered(21, 'tag')].map(
    (selector) =>
      [
        `the selector ${JSON.stringify(selector).slice(0, 20)}`,
        { selector },
        [`selector ${TAGS_RULE}`],
      ] as const,
  ),
  ['a text for concurrency', { concurrency: 'k' }, ['concurrency must be an object']],
  ['no key', { concurrency: { limit: 1 } }, ['concurrency.key is required']],
  ['no limit', { concurrency: { key: 'k' } }, ['concurrency.limit is required']],
  [
    'more about concurrency',
    { concurrency: { key: 'k', limit: 1, x: 1 } },
    ['concurrency.x is not a known field'],
  ],
  ...['', 'k'.repeat(256), 'a\n', '\u007f', 5].map(
    (key) =>
      [
        `the key ${JSON.stringify(key).slice(0, 20)}`,
        { concurrency: { key, limit: 1 } },
        [KEY_RULE],
      ] as const,
  ),
  ...[0, -1, 10_001, 1.5, '1'].map(
    (limit) =>
      [`the limit ${JSON.stringify(limit)}`, { concurrency: { key: 'k', limit } }, [LIMIT_RULE]] as const,
  ),
  ...[
    'exit',
    [1],
    ['infrastructure'],
    ['exit:256'],
    ['exit:-1'],
    ['exit'].concat(Array(100).fill('oom')),
  ].map(
    (retryOn) =>
      [
        `retry_on ${JSON.stringify(retryOn).slice(0, 20)}`,
        { retry_policy: { retry_on: retryOn } },
        [RETRY_RULE],
      ] as const,
  ),
  [
    'a range of exit codes the wrong way round',
    { retry_policy: { retry_on: ['exit:9-8'] } },
    ['retry_policy.retry_on must have ranges of exit codes from the smaller to the larger one'],
  ],
];

describe('the options of a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let made = 0;

  const upsert = (options: object): Promise<TestAnswer> => {
    made += 1;
    const body = { id: `def-${made}`, version: '1', image: 'i', ...options };
    return service.send('POST', '/definitions', { body });
  };
  const define = async (options: object): Promise<string> => {
    const answer = await upsert(options);
    assert.equal(answer.status, 201, answer.text);
    return `/definitions/${answer.body.id}`;
  };
  const runOf = (definition: string, body: object = {}): Promise<TestAnswer> =>
    service.send('POST', `${definition}/runs`, { body });
  const newestId = async (): Promise<string> => (await service.send('GET', '/runs?limit=1')).body.data[0]?.id;

  for (const [title, sent, shown = sent] of TAKEN) {
    test(`a run, a definition and a run of it take ${title}`, async () => {
      const created = await steps.create({ ...sent });
      assert.deepEqual(created, { ...created, ...shown });
      const list = await service.send('GET', '/runs?limit=1');
      assert.deepEqual(await steps.get(created.id), created);
      assert.deepEqual({ ...list.body.data[0], files: created['files'] }, created);
      const definition = await define(sent);
      const { body: read } = await service.send('GET', definition);
      assert.deepEqual(read, { ...read, ...shown });
      const run = bodyOf(await runOf(definition), 'OpRun', 201);
      assert.deepEqual(run, { ...run, ...shown });
      const given = bodyOf(await runOf(await define({}), sent), 'OpRun', 201);
      assert.deepEqual(given, { ...given, ...shown });
    });
  }

  for (const [title, sent, errors] of REFUSED) {
    test(`refuses ${title}, and makes nothing`, async () => {
      const newest = await newestId();
      assertInvalid(await service.send('POST', '/runs', { body: { image: 'i', ...sent } }), errors);
      assertInvalid(await upsert(sent), errors);
      assert.equal((await service.send('GET', `/definitions/def-${made}`)).status, 404);
      assertInvalid(await runOf(await define({}), sent), errors);
      const batch = await service.send('POST', '/runs/batch', { body: { runs: [{ image: 'i', ...sent }] } });
      assert.deepEqual(batch.body.results, [
        { status: 400, error: { detail: 'Request validation failed', errors } },
      ]);
      assert.equal(await newestId(), newest);
    });
  }

  test('variables with names of members of objects are kept as they are', async () => {
    const env = '{"__proto__":"a","constructor":"b","toString":"c"}';
    const created = await service.send('POST', '/runs', { body: `{"image":"i","env":${env}}` });
    const definition = await service.send('POST', '/definitions', {
      body: `{"id":"odd","version":"1","image":"i","env":${env}}`,
    });
    const run = await runOf('/definitions/odd', { env: { toString: 'c', valueOf: 'd' } });
    const read = await service.send('GET', `/runs/${created.body.id}`);
    for (const { text } of [created, definition, read]) assert.ok(text.includes(`"env":${env}`), text);
    assert.ok(
      run.text.includes('"env":{"__proto__":"a","constructor":"b","toString":"c","valueOf":"d"}'),
      run.text,
    );
  });

  test('text that cannot be stored is refused', async () => {
    for (const text of ['"\\u0000"', '"\\ud800"']) {
      for (const field of [`"env":{"A":${text}}`, `"args":[${text}]`, `"selector":[${text}]`]) {
        const answer = await service.send('POST', '/runs', { body: `{"image":"i",${field}}` });
        assert.equal(answer.status, 400, field);
      }
    }
  });

  test('belong to what a repeated request must have in common with the first', async () => {
    const headers = { 'Idempotency-Key': 'options' };
    const send = (options: object): Promise<TestAnswer> =>
      service.send('POST', '/runs', { body: { image: 'i', ...options }, headers });
    const first = await send({ env: { A: '1', B: '2' } });
    const same = await send({ env: { B: '2', A: '1' } });
    assert.deepEqual([same.status, same.body.id], [201, first.body.id]);
    for (const options of [{}, { env: { A: '1' } }, { env: { A: '1', B: '2' }, selector: ['x'] }]) {
      assert.equal((await send(options)).status, 409);
    }
  });
});

function policy(retryOn: readonly string[]): object {
  return { retry_policy: { max_attempts: 3, retry_on: retryOn } };
}
