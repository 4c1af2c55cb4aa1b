import assert from 'node:assert/strict';
import { showOptions } from '../../../src/runs/options/stored-options.js';
import { describe, test } from 'vitest';
import { hashApiKey } from '../../../src/auth/api-key.js';
import { uuidOf } from '../../../src/auth/api-key-verifier.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { numbered, variables } from '../../support/runs/numbered-texts.js';
import { KEYS, settingsName, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

type Taken = readonly [title: string, sent: object, shown?: object];

const NO_CONSTRAINTS = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };
const INT32_MAX = 2 ** 31 - 1;
const KIB_32 = 32 * 1024;
const LONGEST_S = 31_622_400;
const DAY_S = 86_400;
const EMOJI = '😀';

/** What a run shows that was created with an image alone. */
const DEFAULTS = {
  state: 'PENDING',
  priority: 0,
  progress: 0,
  current_attempt: 1,
  image: 'image',
  inputs: {},
  outputs: {},
  events: [],
  execution_summary: {},
  constraints: NO_CONSTRAINTS,
  retry_policy: { max_attempts: 1 },
  event_delivery: null,
  ...showOptions(null),
  selector: [],
  name: null,
  labels: {},
  concurrency: null,
  start_at: null,
  op_definition: null,
  op_definition_version: null,
  source: null,
  rerun_of: null,
  schedule: null,
  group: null,
  array: null,
  reruns: 0,
  created_by: { key_id: uuidOf(hashApiKey(KEYS.admin)), key_name: settingsName('admin', KEYS.admin) },
};

/** Fields of a run alone: what is sent beside an image, and what the run then shows. Absent: the same. */
const TAKEN_OF_RUNS: readonly Taken[] = [
  ['null for the fields', { priority: null, inputs: null, outputs: null, event_delivery: null }, DEFAULTS],
  ['the highest priority', { priority: INT32_MAX }],
  ['the lowest priority', { priority: -(2 ** 31) }],
  ['a topic with attributes', { event_delivery: { topic: 'a topic/ü', attributes: { a: '', ключ: 'v' } } }],
  ['empty attributes', { event_delivery: { topic: 't', attributes: {} } }],
  [
    'null for the attributes',
    { event_delivery: { topic: 't', attributes: null } },
    { event_delivery: { topic: 't' } },
  ],
  [
    'a topic of 255 characters, counted as people count them',
    { event_delivery: { topic: EMOJI.repeat(255) } },
  ],
  ['an image of 512 characters', { image: 'i'.repeat(512) }],
  [
    'an image with registry, port, tag and digest',
    { image: `r.example:5000/a/b:1.2@sha256:${'0'.repeat(64)}` },
  ],
  ['a template of the outputs', { outputs: { result: { upload_url: 'https://x/y?z=1' } } }],
];

/** Options of runs, of definitions and of runs of definitions. */
const TAKEN: readonly Taken[] = [
  ['nothing in any of them', { env: {}, secrets: {}, secrets_from: [], files: {}, mounts: [], selector: [] }],
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
  ['an argument of 4096 characters, counted as people count them', { args: [EMOJI.repeat(4096)] }],
  ['an empty command, which is none', { command: [], args: [] }, { command: null, args: null }],
  ['secrets by variable', { secrets: { TOKEN: 'hub-token', _: 'A.b_c-9', B: 's'.repeat(128) } }],
  ['100 secrets', { secrets: variables(100, 'name') }],
  [
    '20 secrets with variables',
    { secrets_from: numbered(20, 'map').map((secret) => ({ secret, prefix: 'P_' })) },
  ],
  ['an empty prefix', { secrets_from: [{ secret: 's', prefix: '' }] }],
  [
    '20 files with all that one may say',
    {
      files: {
        ...Object.fromEntries(numbered(18, '/a/').map((path) => [path, { content: '' }])),
        '/b.c/d-e/ü \u{1F511}"\\$x': { content: '\r\n\t\u0001', mode: '777', env: 'A' },
        '/longshore.json': { secret: 'key', mode: '0000', env: 'B' },
      },
      env: { C: '' },
      secrets: { D: 'd' },
    },
  ],
  [
    'the bytes of a file in base64',
    {
      files: {
        '/k.p12': { content_base64: '/wD+', mode: '0400', env: 'KEY' },
        '/empty': { content_base64: '' },
        '/large': { content_base64: Buffer.alloc(65_536, 0xfe).toString('base64') },
      },
    },
  ],
  ['limits of its program', { ulimits: { nofile: 1, memlock: -1, stack: 2 ** 40, core: 0 } }],
  ['a path of 512 characters', { files: { [`/${EMOJI.repeat(511)}`]: { content: '' } } }],
  [
    '20 mounts of all kinds',
    {
      mounts: [
        ...numbered(17, '/a').map((path) => ({ volume: 'v', path })),
        {
          volume: 'v'.repeat(63),
          path: '/b.c/d-e/ü \u{1F511}"\\$x',
          read_only: true,
          sub_path: 'a/..b/$x {y} :é',
        },
        {
          volume: '0-9',
          path: '/longshore.d',
          read_only: false,
          sub_path: `${'x'.repeat(255)}/${'y'.repeat(256)}`,
        },
        { scratch_mb: INT32_MAX, path: '/abc' },
      ],
      files: { '/ab': { content: '' } },
    },
  ],
  ['a secret of the registry', { image_pull_secret: 'hub-login' }],
  ['a working directory of 512 characters', { workdir: `/${EMOJI.repeat(511)}` }],
  ...['0', '1000', '1000:0', '2147483647:2147483647'].map((user) => [`user ${user}`, { user }] as const),
  ...['none', 'a', `a${'-'.repeat(61)}9`].map((network) => [`network ${network}`, { network }] as const),
  ['20 tags, in their order and repeated', { selector: [...numbered(19, 'tag'), 'tag0'] }],
  ['a tag of 128 characters', { selector: [EMOJI.repeat(128), 't', 'a,b', ' '] }],
  [
    'the smallest of each',
    {
      concurrency: { key: 'k', limit: 1 },
      timeouts: { start_within_s: 1, attempt_s: 1 },
      stop_grace_s: 0,
      workdir: '/',
    },
  ],
  [
    'the largest of each',
    {
      concurrency: { key: EMOJI.repeat(255), limit: 10_000 },
      timeouts: { start_within_s: LONGEST_S, attempt_s: LONGEST_S },
      stop_grace_s: 3600,
      ...policy({ max_attempts: 1000, backoff_s: DAY_S, max_backoff_s: DAY_S }),
    },
  ],
  ['empty blocks', { constraints: {}, retry_policy: {}, timeouts: {} }, DEFAULTS],
  ...['ram_mb', 'vram_mb', 'cpu'].map(
    (name) =>
      [
        `the most of ${name} alone`,
        { constraints: { [name]: INT32_MAX } },
        { constraints: { ...NO_CONSTRAINTS, [name]: INT32_MAX } },
      ] as const,
  ),
  ['a gpu_id, which it ignores', { constraints: { gpu_id: 3 } }, { constraints: NO_CONSTRAINTS }],
  ['a budget of the start alone', { timeouts: { start_within_s: 7 } }],
  [
    'a budget of the attempt alone, beside a null',
    { timeouts: { start_within_s: null, attempt_s: 9 } },
    { timeouts: { attempt_s: 9 } },
  ],
  ['a back-off of 0, which is none', policy({ backoff_s: 0, max_backoff_s: 0 }), policy({})],
  ['a back-off alone', policy({ backoff_s: 1 })],
  ['a bound alone', policy({ max_backoff_s: 5 })],
  ['a bound below the back-off', policy({ backoff_s: 9, max_backoff_s: 2 })],
  [
    'causes and exit codes',
    policy({ retry_on: ['error', 'exit', 'oom', 'timeout', 'image', 'exit:0', 'exit:7-255'] }),
  ],
  ['no failure to be retried', policy({ retry_on: [] })],
  ['a growth with decimals to the RAM that it asks for', growth({ factor: 1.000001, max: 1024 })],
  [
    'the largest growth, and failures',
    growth({ factor: 10, max: INT32_MAX, on: ['oom', 'exit:137', 'exit:1-9'] }),
  ],
  ['a growth after no failure', growth({ factor: 2, max: 3000, on: [] })],
  [
    'null for the failures of a growth',
    growth({ factor: 2, max: 3000, on: null }),
    growth({ factor: 2, max: 3000 }),
  ],
  [
    'null for every option',
    Object.fromEntries(
      [...Object.keys(showOptions(null)), 'selector', 'concurrency', 'labels', 'timeouts'].map((name) => [
        name,
        null,
      ]),
    ),
    DEFAULTS,
  ],
  [
    'null for every member of a block',
    {
      constraints: { ram_mb: null, vram_mb: null, cpu: null, gpu_id: null },
      retry_policy: { max_attempts: null, backoff_s: null, max_backoff_s: null, retry_on: null, grow: null },
      timeouts: { start_within_s: null, attempt_s: null },
      secrets_from: [{ secret: 's', prefix: null }],
      files: { '/f': { content: 'a', content_base64: null, secret: null, env: null, mode: null } },
      mounts: [{ volume: 'v', scratch_mb: null, path: '/a', read_only: null, sub_path: null }],
    },
    {
      ...DEFAULTS,
      secrets_from: [{ secret: 's' }],
      files: { '/f': { content: 'a' } },
      mounts: [{ volume: 'v', path: '/a' }],
    },
  ],
];

describe('creating a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let defined = 0;

  /** Stores a definition; answers its path. */
  const define = async (options: object): Promise<string> => {
    defined += 1;
    const body = { id: `def-${defined}`, version: '1', image: 'image', ...options };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    return `/definitions/${body.id}`;
  };
  const runOf = async (definition: string, body: object = {}): Promise<Json> =>
    bodyOf(await service.send('POST', `${definition}/runs`, { body }), 'OpRun', 201);

  test('answers the whole run with every default', async () => {
    const now = Date.now();
    const run = await steps.create();
    const { id, createdAt, updatedAt, ...rest } = run;
    assert.deepEqual(rest, DEFAULTS);
    assert.equal(updatedAt, createdAt);
    assert.ok(Math.abs(Date.parse(createdAt) - now) < 60_000, 'the clocks are one machine’s');
    assert.deepEqual(await steps.get(id), run);
  });

  for (const [title, sent, shown = sent] of TAKEN_OF_RUNS) {
    test(`takes ${title}`, async () => {
      const { id, createdAt, updatedAt, ...run } = await steps.create({ ...sent });
      assert.deepEqual(run, { ...DEFAULTS, ...shown });
      assert.deepEqual(await steps.get(id), { id, createdAt, updatedAt, ...run });
    });
  }

  for (const [title, sent, shown = sent] of TAKEN) {
    test(`a run, a definition and a run of it take ${title}`, async () => {
      const created = await steps.create({ ...sent });
      const { id, createdAt: _, updatedAt: _now, ...run } = created;
      assert.deepEqual(run, { ...DEFAULTS, ...shown });
      assert.deepEqual(await steps.get(id), created);
      const list = await service.send('GET', '/runs?limit=1');
      const [{ reason, ...listed }] = list.body.data;
      assert.deepEqual({ ...listed, files: created.files }, created);
      assert.equal(typeof reason, 'string');

      const shownOf = (answer: Json): unknown[] => Object.keys(sent).map((name) => answer[name]);
      const definition = await define(sent);
      const { body: read } = await service.send('GET', definition);
      for (const answer of [read, await runOf(definition), await runOf(await define({}), sent)])
        assert.deepEqual(shownOf(answer), shownOf(run));
    });
  }

  test('keeps odd names of attributes and variables', async () => {
    const odd = '{"__proto__":"a","constructor":"b","z":"c","toString":"d"}';
    const options = `"env":${odd},"event_delivery":{"topic":"t","attributes":${odd}}`;
    const created = await service.send('POST', '/runs', { body: `{"image":"i",${options}}` });
    const definition = await service.send('POST', '/definitions', {
      body: `{"id":"odd","version":"1","image":"i",${options}}`,
    });
    const read = await service.send('GET', `/runs/${created.body.id}`);
    const made = await service.send('POST', '/definitions/odd/runs', { body: { env: { z: 'c' } } });
    for (const { text } of [created, definition, read, made])
      assert.ok(text.includes(`"env":${odd}`) && text.includes(`"attributes":${odd}`), text);
  });

  test('refuses text that cannot be stored', async () => {
    for (const text of ['"\\u0000"', '"\\ud800"']) {
      for (const field of [`"env":{"A":${text}}`, `"args":[${text}]`, `"selector":[${text}]`]) {
        const answer = await service.send('POST', '/runs', { body: `{"image":"i",${field}}` });
        assert.equal(answer.status, 400, field);
      }
    }
  });

  test('compares options and constraints when a request is repeated', async () => {
    const headers = { 'Idempotency-Key': 'options' };
    const send = (options: object): Promise<TestAnswer> =>
      service.send('POST', '/runs', { body: { image: 'i', ...options }, headers });
    const grow = { ram_mb: { factor: 2, max: 9 } };
    const given = {
      env: { A: '1', B: '2' },
      constraints: { cpu_millis: 500, ram_mb: 8 },
      retry_policy: { grow },
    };
    const first = await send(given);
    const same = await send({ ...given, env: { B: '2', A: '1' } });
    assert.deepEqual([same.status, same.body.id], [201, first.body.id]);
    for (const other of [
      { env: { A: '1' } },
      { selector: ['x'] },
      { constraints: { cpu_millis: 501, ram_mb: 8 } },
      { retry_policy: { grow: { ram_mb: { factor: 2, max: 10 } } } },
      { retry_policy: { grow: { ram_mb: { factor: 2.5, max: 9 } } } },
      { retry_policy: { grow: { ram_mb: { factor: 2, max: 9, on: ['exit'] } } } },
    ])
      assert.equal((await send({ ...given, ...other })).status, 409, JSON.stringify(other));
  });
});

function policy(given: object): { readonly retry_policy: object } {
  return { retry_policy: { max_attempts: 1, ...given } };
}

/** A run of 1024 MB that grows. */
function growth(ramMb: object): object {
  return { constraints: { ...NO_CONSTRAINTS, ram_mb: 1024 }, ...policy({ grow: { ram_mb: ramMb } }) };
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
