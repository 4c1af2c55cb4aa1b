import { describe } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { each, testRefusals, type Refusal } from '../../support/runs/refusals.js';

const INT32_MAX = 2 ** 31 - 1;
const LONGEST_S = 31_622_400;
const GROW = 'retry_policy.grow.ram_mb';
const IMAGE_RULE = 'image must be an image reference without white space of 1 to 512 characters';
const TOPIC_RULE = 'event_delivery.topic must be a string without control characters of 1 to 255 characters';
const PRIORITY_RULE = `priority must be an integer from ${-(2 ** 31)} to ${INT32_MAX}`;

const integers = (to: number): unknown[] => [-1, to + 1, 0.5, '1', true, [], {}];
const constraint = (name: string) => (value: unknown) => ({ constraints: { [name]: value } });
const policy = (name: string) => (value: unknown) => ({ retry_policy: { [name]: value } });
const budget = (name: string) => (value: unknown) => ({ timeouts: { [name]: value } });
const growth = (given: object) => ({
  constraints: { ram_mb: 8 },
  retry_policy: { grow: { ram_mb: { factor: 2, max: 9, ...given } } },
});
/** Blocks that runs, definitions and runs of definitions have in common. */
const REFUSED: readonly Refusal[] = [
  ...each('constraints must be an object', (constraints) => ({ constraints }), [[], 'x', 1]),
  ...['ram_mb', 'vram_mb', 'cpu'].flatMap((name) =>
    each(
      `constraints.${name} must be an integer from 0 to ${INT32_MAX}`,
      constraint(name),
      integers(INT32_MAX),
    ),
  ),
  ...['cpu_millis', 'shm_mb'].flatMap((name) =>
    each(`constraints.${name} must be an integer from 1 to ${INT32_MAX}`, constraint(name), [0, 0.5]),
  ),
  ...each('constraints.gpus must be an integer from 0 to 64', constraint('gpus'), integers(64)),
  ...each(
    'constraints.gpu_selector must be a list of at most 8 items, each a string without control characters of 1 to 128 characters',
    constraint('gpu_selector'),
    [Array(9).fill('a'), ['']],
  ),
  [{ constraints: { gpu_id: '0' } }, ['constraints.gpu_id must be an integer']],
  [{ constraints: { tpus: 1 } }, ['constraints.tpus is not a known field: did you mean constraints.gpus?']],
  [
    { constraints: { memory: 1 } },
    ['constraints.memory is not a known field: use constraints.ram_mb (in MB)'],
  ],
  [
    { volumes: [] },
    ['volumes is not a known field: use mounts (volumes by the names that the operators of workers offer)'],
  ],
  [{ memory: '1g' }, ['memory is not a known field: use constraints.ram_mb (in MB)']],
  [
    { 'cpus-per-task': 1 },
    [
      'cpus-per-task is not a known field: use constraints.cpu (whole cores; cpu_millis beside it has thousandths)',
    ],
  ],
  [
    { privileged: true },
    ['privileged is not a known field: it is refused on purpose: a run would own the machine of its worker'],
  ],
  [{ retryPolicy: {} }, ['retryPolicy is not a known field: did you mean retry_policy?']],
  [{ selectr: [] }, ['selectr is not a known field: did you mean selector?']],
  ...(
    [
      [
        { cpu: 1, cpu_millis: 1001 },
        'cpu must be 2, the next whole number of cpu_millis, where both are given',
      ],
      [{ cpu: 0, cpu_millis: 1 }, 'cpu must be 1, the next whole number of cpu_millis, where both are given'],
      [
        { cpu_millis: 500, cpu_limit_millis: 499 },
        'cpu_limit_millis must be 0 or at least what is requested, 500',
      ],
      [{ cpu: 2, cpu_limit_millis: 1999 }, 'cpu_limit_millis must be 0 or at least what is requested, 2000'],
      [{ ram_mb: 8, shm_mb: 9 }, 'shm_mb must be at most ram_mb, 8'],
    ] as const
  ).map(([constraints, problem]): Refusal => [{ constraints }, [`constraints.${problem}`]]),

  ...each('timeouts must be an object', (timeouts) => ({ timeouts }), [5, 'x', [], true]),
  ...['start_within_s', 'attempt_s'].flatMap((name) =>
    each(`timeouts.${name} must be an integer from 1 to ${LONGEST_S}`, budget(name), [
      0,
      ...integers(LONGEST_S),
    ]),
  ),
  [{ timeouts: { queue_s: 1 } }, ['timeouts.queue_s is not a known field']],
  [{ retry_policy: 'x' }, ['retry_policy must be an object']],
  [{ retry_policy: { delay: 1 } }, ['retry_policy.delay is not a known field']],
  ...each('retry_policy.max_attempts must be an integer from 1 to 1000', policy('max_attempts'), [
    0,
    ...integers(1000),
  ]),
  ...['backoff_s', 'max_backoff_s'].flatMap((name) =>
    each(`retry_policy.${name} must be an integer from 0 to 86400`, policy(name), integers(86_400)),
  ),
  ...each(
    'retry_policy.retry_on must be a list of at most 100 items, each one of exit, oom, timeout, image, error, ' +
      'exit:N or exit:N-M (exit codes from 0 to 255, N <= M)',
    policy('retry_on'),
    ['exit', [1], ['infrastructure'], ['exit:256'], ['exit:-1'], Array(101).fill('oom')],
  ),
  [
    { retry_policy: { retry_on: ['exit:9-8'] } },
    ['retry_policy.retry_on must have ranges of exit codes from the smaller to the larger one'],
  ],
  [{ retry_policy: { grow: 2 } }, ['retry_policy.grow must be an object']],
  [{ retry_policy: { grow: {} } }, [`${GROW} is required`]],
  ...each(`${GROW}.factor must be a number above 1 and at most 10`, (factor) => growth({ factor }), [
    1,
    0,
    -2,
    10.01,
    '2',
    true,
  ]),
  ...each(`${GROW}.max must be an integer from 1 to ${INT32_MAX}`, (max) => growth({ max }), [
    9.5,
    INT32_MAX + 1,
    '9',
  ]),
  [growth({ factor: undefined }), [`${GROW}.factor is required`]],
  [growth({ max: undefined }), [`${GROW}.max is required`]],
  [growth({ max: 7 }), [`${GROW}.max must be at least constraints.ram_mb, 8`]],
  ...each(
    `${GROW}.factor needs constraints.ram_mb, which it multiplies, above 0`,
    (ram_mb) => ({ ...growth({}), constraints: { ram_mb } }),
    [null, 0],
  ),
  [
    growth({ on: ['infrastructure'] }),
    [
      `${GROW}.on must be a list of at most 100 items, each one of exit, oom, timeout, image, error, ` +
        'exit:N or exit:N-M (exit codes from 0 to 255, N <= M)',
    ],
  ],
  [
    growth({ on: ['exit:9-8'] }),
    [`${GROW}.on must have ranges of exit codes from the smaller to the larger one`],
  ],
];

/** Fields that a definition has not, or not in this form. */
const REFUSED_OF_RUNS: readonly Refusal[] = [
  ...each('image is required', (image) => ({ image }), [undefined, null]),
  ...each(
    IMAGE_RULE,
    (image) => ({ image }),
    [
      ['', 'i'.repeat(513), 5, ' ', 'a b', 'a\t', 'a\n'],
      ['a\u00a0b', 'a\u2028', 'a\u0007', 'a\u007f', 'a\u0085', 'a\u202eb', 'a\u2066b'],
    ].flat(),
  ),
  ...each(PRIORITY_RULE, (priority) => ({ priority }), [-(2 ** 31) - 1, ...integers(INT32_MAX).slice(1)]),
  ...each('inputs must be an object', (inputs) => ({ inputs }), [[], '{}']),
  [{ outputs: [] }, ['outputs must be an object']],
  ...each(
    (name) => `${name} is not a known field`,
    (name) => Object.defineProperty({}, name, { value: 1, enumerable: true }),
    ['id', 'state', 'createdAt', 'toString', '__proto__'],
  ),
  [{ input: {} }, ['input is not a known field: use inputs']],
  [{ imaGe: 1 }, ['imaGe is not a known field: did you mean image?']],
  [
    { op_definition: 'x' },
    [
      'op_definition is not a known field: it is in the path of a run of a definition: POST /definitions/{id}/runs',
    ],
  ],
  [{ event_delivery: 't' }, ['event_delivery must be an object']],
  [{ event_delivery: {} }, ['event_delivery.topic is required']],
  [{ event_delivery: { topic: 't', url: '' } }, ['event_delivery.url is not a known field']],
  ...each(TOPIC_RULE, (topic) => ({ event_delivery: { topic } }), [
    '',
    't'.repeat(256),
    'a\n',
    '\u0001',
    'a\u007f',
    'a\u009f',
  ]),
  ...each(
    'event_delivery.attributes.a must be a string',
    (attributes) => ({ event_delivery: { topic: 't', attributes } }),
    [{ a: 1 }, { a: null }, { a: ['b'] }],
  ),
  [
    {
      image: '',
      priority: 'high',
      nope: 1,
      constraints: { cpu: -1 },
      timeouts: { start_within_s: 0, attempt_s: 0 },
    },
    [
      IMAGE_RULE,
      `constraints.cpu must be an integer from 0 to ${INT32_MAX}`,
      `timeouts.start_within_s must be an integer from 1 to ${LONGEST_S}`,
      `timeouts.attempt_s must be an integer from 1 to ${LONGEST_S}`,
      PRIORITY_RULE,
      'nope is not a known field',
    ],
  ],
];

describe('the fields of a run', () => {
  const service = useTestApp();
  testRefusals(service, REFUSED);
  testRefusals(service, REFUSED_OF_RUNS, ['/runs', '/runs/batch']);
});
