import assert from 'node:assert/strict';
import { showOptions } from '../../../src/runs/options/option-values.js';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NO_CONSTRAINTS = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };
const ONE_ATTEMPT = { max_attempts: 1 };
const INT32_MAX = 2 ** 31 - 1;
const IMAGE_RULE = 'image must be an image reference without white space of 1 to 512 characters';
const TOPIC_RULE = 'event_delivery.topic must be a string without control characters of 1 to 255 characters';
const RANGE = `must be an integer from 0 to ${INT32_MAX}`;

/** What is sent beside an image, and what the run then shows. */
const TAKEN: readonly (readonly [title: string, sent: object, shown: object])[] = [
  ['nulls as if they were absent', nulls(), defaults()],
  [
    'nulls inside the blocks as if they were absent',
    {
      constraints: { ram_mb: null, vram_mb: null, cpu: null, gpu_id: null },
      retry_policy: { max_attempts: null, retry_on: null, grow: null },
      event_delivery: { topic: 't', attributes: null },
    },
    { constraints: NO_CONSTRAINTS, retry_policy: ONE_ATTEMPT, event_delivery: { topic: 't' } },
  ],
  ['empty blocks', { constraints: {}, retry_policy: {} }, defaults()],
  ['ram_mb alone', { constraints: { ram_mb: 5 } }, { constraints: { ...NO_CONSTRAINTS, ram_mb: 5 } }],
  ['vram_mb alone', { constraints: { vram_mb: 6 } }, { constraints: { ...NO_CONSTRAINTS, vram_mb: 6 } }],
  ['cpu alone', { constraints: { cpu: 7 } }, { constraints: { ...NO_CONSTRAINTS, cpu: 7 } }],
  ['a gpu_id, which it ignores', { constraints: { gpu_id: 3 } }, { constraints: NO_CONSTRAINTS }],
  [
    'the largest constraints',
    { constraints: { ram_mb: INT32_MAX, vram_mb: INT32_MAX, cpu: INT32_MAX } },
    { constraints: { ram_mb: INT32_MAX, vram_mb: INT32_MAX, cpu: INT32_MAX, gpu_id: null } },
  ],
  ['the highest priority', { priority: INT32_MAX }, { priority: INT32_MAX }],
  ['the lowest priority', { priority: -(2 ** 31) }, { priority: -(2 ** 31) }],
  ['1000 attempts', { retry_policy: { max_attempts: 1000 } }, { retry_policy: { max_attempts: 1000 } }],
  [
    'a topic with attributes',
    { event_delivery: { topic: 'a topic/ü', attributes: { a: '', ключ: 'v' } } },
    { event_delivery: { topic: 'a topic/ü', attributes: { a: '', ключ: 'v' } } },
  ],
  [
    'empty attributes',
    { event_delivery: { topic: 't', attributes: {} } },
    { event_delivery: { topic: 't', attributes: {} } },
  ],
  [
    'a topic of 255 characters, counted as people count them',
    { event_delivery: { topic: '😀'.repeat(255) } },
    { event_delivery: { topic: '😀'.repeat(255) } },
  ],
  ['an image of one character', { image: 'i' }, { image: 'i' }],
  ['an image of 512 characters', { image: 'i'.repeat(512) }, { image: 'i'.repeat(512) }],
  [
    'an image with registry, port, tag and digest',
    { image: `r.example:5000/a/b:1.2@sha256:${'0'.repeat(64)}` },
    { image: `r.example:5000/a/b:1.2@sha256:${'0'.repeat(64)}` },
  ],
  [
    'a template of the outputs',
    { outputs: { result: { upload_url: 'https://x/y?z=1' } } },
    { outputs: { result: { upload_url: 'https://x/y?z=1' } } },
  ],
];

/** Fields that are refused, and the lines that say so. */
const REFUSED: readonly (readonly [title: string, sent: object, errors: readonly string[]])[] = [
  ['no image', { image: undefined }, ['image is required']],
  ['null for an image', { image: null }, ['image is required']],
  ['an empty image', { image: '' }, [IMAGE_RULE]],
  ['an image of 513 characters', { image: 'i'.repeat(513) }, [IMAGE_RULE]],
  ...[' ', 'a b', 'a\t', 'a\n', 'a\u00a0b', 'a\u2028', 'a\u0007', 'a\u007f', 'a\u0085'].map(
    (image) => [`the image ${JSON.stringify(image)}`, { image }, [IMAGE_RULE]] as const,
  ),
  ['a number for an image', { image: 5 }, [IMAGE_RULE]],
  ...[INT32_MAX + 1, -(2 ** 31) - 1, 1.5, '1', true, [], {}].map(
    (priority) =>
      [
        `the priority ${JSON.stringify(priority)}`,
        { priority },
        [`priority must be an integer from ${-(2 ** 31)} to ${INT32_MAX}`],
      ] as const,
  ),
  ...[0, 1001, -1, 2.5, '3'].map(
    (max) =>
      [
        `max_attempts ${JSON.stringify(max)}`,
        { retry_policy: { max_attempts: max } },
        ['retry_policy.max_attempts must be an integer from 1 to 1000'],
      ] as const,
  ),
  ...['ram_mb', 'vram_mb', 'cpu'].flatMap((name) =>
    [-1, INT32_MAX + 1, 0.5, '1'].map(
      (value) =>
        [
          `${name} ${JSON.stringify(value)}`,
          { constraints: { [name]: value } },
          [`constraints.${name} ${RANGE}`],
        ] as const,
    ),
  ),
  ['a text for a gpu_id', { constraints: { gpu_id: '0' } }, ['constraints.gpu_id must be an integer']],
  ['no topic', { event_delivery: {} }, ['event_delivery.topic is required']],
  ['an empty topic', { event_delivery: { topic: '' } }, [TOPIC_RULE]],
  ['a topic of 256 characters', { event_delivery: { topic: 't'.repeat(256) } }, [TOPIC_RULE]],
  ...['a\n', '\u0001', 'a\u007f', 'a\u009f'].map(
    (topic) => [`the topic ${JSON.stringify(topic)}`, { event_delivery: { topic } }, [TOPIC_RULE]] as const,
  ),
  ...[{ a: 1 }, { a: null }, { a: ['b'] }].map(
    (attributes) =>
      [
        `the attributes ${JSON.stringify(attributes)}`,
        { event_delivery: { topic: 't', attributes } },
        ['event_delivery.attributes.a must be a string'],
      ] as const,
  ),
  ['a list for inputs', { inputs: [] }, ['inputs must be an object']],
  ['a text for inputs', { inputs: '{}' }, ['inputs must be an object']],
  ['a list for outputs', { outputs: [] }, ['outputs must be an object']],
  ['a list for constraints', { constraints: [] }, ['constraints must be an object']],
  ['a text for the retry policy', { retry_policy: 'x' }, ['retry_policy must be an object']],
  ['a text for the event delivery', { event_delivery: 't' }, ['event_delivery must be an object']],
  ...['id', 'state', 'op_definition', 'imaGe', 'createdAt', 'toString', '__proto__'].map(
    (name) => [`the unknown field ${name}`, own(name, 1), [`${name} is not a known field`]] as const,
  ),
  ['an unknown constraint', { constraints: { tpus: 1 } }, ['constraints.tpus is not a known field']],
  ['an unknown policy', { retry_policy: { delay: 1 } }, ['retry_policy.delay is not a known field']],
  [
    'an unknown field of the delivery',
    { event_delivery: { topic: 't', url: '' } },
    ['event_delivery.url is not a known field'],
  ],
  [
    'several things at once, one line each',
    { image: '', priority: 'high', nope: 1, constraints: { cpu: -1 } },
    [
      IMAGE_RULE,
      `priority must be an integer from ${-(2 ** 31)} to ${INT32_MAX}`,
      `constraints.cpu ${RANGE}`,
      'nope is not a known field',
    ],
  ],
];

/** Texts of inputs that must come back character by character. */
const FAITHFUL = [
  '{}',
  '{"z":1,"a":2,"m":{"y":[],"b":[{}]}}',
  '{"__proto__":{"polluted":true},"constructor":{"prototype":1},"toString":"x","hasOwnProperty":null}',
  '{"":"empty","a.b":1,"a b":2,"$ref":"#","\\u2028":"\\u2029"}'.replaceAll(/\\u202[89]/g, (escape) =>
    String(JSON.parse(`"${escape}"`)),
  ),
  '{"n":[0,0.1,1.5e-7,123456.789,-0.25,9007199254740991,-9007199254740991,5e-324]}',
  '{"t":["","é","日本語","😀","\\"\\\\\\n\\t","</script>","\u007f"]}',
  '{"v":[null,true,false,[[[]]]]}',
] as const;

describe('creating a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  test('answers the whole run with every default', async () => {
    const now = Date.now();
    const run = bodyOf(await service.send('POST', '/runs', { body: { image: 'i' } }), 'OpRun', 201);
    const { id, createdAt, updatedAt, ...rest } = run;
    assert.deepEqual(rest, { ...defaults(), image: 'i' });
    assert.equal(updatedAt, createdAt);
    assert.ok(Math.abs(Date.parse(createdAt) - now) < 60_000, 'the clocks are one machine’s');
    assert.deepEqual(await steps.get(id), run);
  });

  for (const [title, sent, shown] of TAKEN) {
    test(`takes ${title}`, async () => {
      const run = await steps.create({ ...sent });
      assert.deepEqual(run, { ...run, ...defaults(), image: run.image, ...shown });
      assert.deepEqual(await steps.get(run.id), run);
    });
  }

  for (const [title, sent, errors] of REFUSED) {
    test(`refuses ${title}`, async () => {
      const body = Object.defineProperties({ image: 'i' }, Object.getOwnPropertyDescriptors(sent));
      assertInvalid(await service.send('POST', '/runs', { body: JSON.stringify(body) }), errors);
    });
  }

  for (const inputs of FAITHFUL) {
    test(`keeps inputs and outputs character by character: ${inputs}`, async () => {
      await steps.emptyQueue();
      const body = `{"image":"i","inputs":${inputs},"outputs":${inputs}}`;
      const answer = await service.send('POST', '/runs', { body });
      const { id } = bodyOf(answer, 'OpRun', 201);
      for (const { text } of [answer, await service.send('GET', `/runs/${id}`)]) {
        assert.ok(text.includes(`"inputs":${inputs},"outputs":${inputs},`), text);
      }
      const claimed = await service.send('POST', '/workers/w/claim');
      assert.ok(claimed.text.includes(`{"id":"${id}","image":"i","inputs":${inputs},`), claimed.text);
    });
  }

  test('keeps odd names of attributes', async () => {
    const attributes = '{"__proto__":"a","constructor":"b","z":"c","toString":"d"}';
    const body = `{"image":"i","event_delivery":{"topic":"t","attributes":${attributes}}}`;
    const created = await service.send('POST', '/runs', { body });
    const { id } = bodyOf(created, 'OpRun', 201);
    for (const { text } of [created, await service.send('GET', `/runs/${id}`)]) {
      assert.ok(text.includes(`"attributes":${attributes}`), text);
    }
  });

  test('changes nothing of what later runs start with', async () => {
    await steps.create({ constraints: { cpu: 9 }, retry_policy: { max_attempts: 9 }, inputs: { a: 1 } });
    const { constraints, retry_policy: policy, inputs } = await steps.create();
    assert.deepEqual([constraints, policy, inputs], [NO_CONSTRAINTS, ONE_ATTEMPT, {}]);
  });
});

/** What a run shows that was created with an image alone. */
function defaults(): Record<string, unknown> {
  return {
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
    retry_policy: ONE_ATTEMPT,
    event_delivery: null,
    ...showOptions(null),
    selector: [],
    name: null,
    labels: {},
    concurrency: null,
    start_at: null,
    op_definition: null,
    op_definition_version: null,
  };
}

function nulls(): Record<string, null> {
  const names = ['priority', 'inputs', 'outputs', 'constraints', 'retry_policy', 'event_delivery'];
  return Object.fromEntries(names.map((name) => [name, null]));
}

/** An object with one own field of any name. */
function own(name: string, value: unknown): object {
  return Object.defineProperty({}, name, { value, enumerable: true });
}
