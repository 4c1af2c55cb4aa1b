import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const ID_RULE =
  'worker_id must be a worker id (letters, digits and . _ - : /, starting with a letter or digit) of 1 to 128 characters';
const COUNT = 'must be an integer of at least 0';
const GPU_ID_RULE = 'resources.gpus[0].id must be an integer from 0 to 2147483647';
const GPU = { id: 0, vram_mb: 1 };
const OP = { id: 'r', image: 'i', inputs: {}, constraints: {} };
const RESOURCES = { cpu_cores: 1, ram_mb: 1, gpus: [] };

/** What is wrong with a heartbeat, as fields to change in a good one, and the lines that say so. */
const REFUSED: readonly (readonly [change: Record<string, unknown>, errors: readonly string[]])[] = [
  [{ worker_id: undefined }, ['worker_id is required']],
  ...['', ' w', '-w', '.w', '/w', ':w', 'w w', 'wü', 'w%', 'w\n', 'w'.repeat(129), 5, {}].map(
    (id) => [{ worker_id: id }, [ID_RULE]] as const,
  ),
  [{ resources: undefined }, ['resources is required']],
  [{ resources: null }, ['resources is required']],
  [{ resources: [] }, ['resources must be an object']],
  [
    { resources: {} },
    ['resources.cpu_cores is required', 'resources.ram_mb is required', 'resources.gpus is required'],
  ],
  ...[-1, 0.5, '1', true].flatMap((value) => [
    [{ resources: { ...RESOURCES, cpu_cores: value } }, [`resources.cpu_cores ${COUNT}`]] as const,
    [{ resources: { ...RESOURCES, ram_mb: value } }, [`resources.ram_mb ${COUNT}`]] as const,
    [{ resources: { ...RESOURCES, gpus: [{ ...GPU, id: value }] } }, [GPU_ID_RULE]] as const,
    [
      { resources: { ...RESOURCES, gpus: [GPU, { id: 1, vram_mb: value }] } },
      [`resources.gpus[1].vram_mb ${COUNT}`],
    ] as const,
  ]),
  [{ resources: { ...RESOURCES, gpus: [{ ...GPU, id: 2 ** 31 }] } }, [GPU_ID_RULE]],
  [{ resources: { ...RESOURCES, gpus: {} } }, ['resources.gpus must be a list of at most 64 items']],
  [{ resources: { ...RESOURCES, gpus: [5] } }, ['resources.gpus[0] must be an object']],
  [{ resources: { ...RESOURCES, gpus: [null] } }, ['resources.gpus[0] must be an object']],
  [
    { resources: { ...RESOURCES, gpus: [{ ...GPU, tags: 'a100' }] } },
    ['resources.gpus[0].tags must be a list of at most 100 items, each a string of at most 128 characters'],
  ],
  [
    { resources: { ...RESOURCES, gpus: [GPU, { ...GPU, id: 1 }, GPU, GPU] } },
    [
      'resources.gpus[2].id must not repeat the id of another GPU',
      'resources.gpus[3].id must not repeat the id of another GPU',
    ],
  ],
  [{ not_claiming: {} }, ['not_claiming must be a list of at most 4 items']],
  [{ not_claiming: [{}] }, ['not_claiming[0].reason is required']],
  [
    { not_claiming: [{ reason: 'tired', message: 'x'.repeat(501) }] },
    [
      'not_claiming[0].reason must be one of: draining, engine_paused, disk_full, key_refused',
      'not_claiming[0].message must be a string of at most 500 characters',
    ],
  ],
  [{ tags: undefined }, ['tags is required']],
  [{ tags: null }, ['tags is required']],
  ...['a', {}, [1], [null], [['a']]].map(
    (tags) =>
      [
        { tags },
        ['tags must be a list of at most 100 items, each a string of at most 128 characters'],
      ] as const,
  ),
  [{ engine: 'slurm' }, ['engine must be an object']],
  [{ engine: {} }, ['engine.name is required', 'engine.pending is required', 'engine.running is required']],
  ...['', 'Slurm', 'a b', 'x'.repeat(65), 1].map(
    (name) =>
      [
        { engine: { name, pending: 0, running: 0 } },
        ['engine.name must be a name of a-z, 0-9 and - of 1 to 64 characters'],
      ] as const,
  ),
  ...[-1, 0.5, '1', 2 ** 31].map(
    (pending) =>
      [
        { engine: { name: 'slurm', pending, running: 0 } },
        ['engine.pending must be an integer from 0 to 2147483647'],
      ] as const,
  ),
  [{ running_ops: {} }, ['running_ops must be a list of at most 1000 items']],
  [{ running_ops: ['r'] }, ['running_ops[0] must be an object']],
  [
    { running_ops: [OP, {}] },
    ['id', 'image', 'inputs', 'constraints'].map((name) => `running_ops[1].${name} is required`),
  ],
  [{ running_ops: [{ ...OP, id: 5 }] }, ['running_ops[0].id must be a string of 1 to 128 characters']],
  [
    { running_ops: [{ ...OP, image: 5 }] },
    ['running_ops[0].image must be a string of at most 512 characters'],
  ],
  [{ running_ops: [{ ...OP, inputs: [] }] }, ['running_ops[0].inputs must be an object']],
  ...[0, 1001, 1.5, '1'].map(
    (attempt) =>
      [
        { running_ops: [{ ...OP, attempt }] },
        ['running_ops[0].attempt must be an integer from 1 to 1000'],
      ] as const,
  ),
  [{ running_ops: [{ ...OP, constraints: 'x' }] }, ['running_ops[0].constraints must be an object']],
];

describe('a heartbeat', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '42.5' } });
  const steps = new RunSteps(service.send);

  /** The workers as listed, but for what they have left, which the answer to a heartbeat does not tell. */
  const list = async (): Promise<{ readonly id: string }[]> => {
    const workers: { readonly id: string; free?: object; assigned?: object }[] = bodyOf(
      await service.send('GET', '/workers'),
      'Workers',
    );
    return workers.map((listed) => {
      const { free: _, assigned: __, ...worker } = listed;
      return worker;
    });
  };

  test('says why the worker does not claim until one without a reason', async () => {
    const reason = { reason: 'engine_paused', message: 'the engine does not answer' };
    const told = await steps.heartbeat('paused', { not_claiming: [reason, { reason: 'draining', more: 1 }] });
    assert.deepEqual(told.not_claiming, [reason, { reason: 'draining', message: '' }]);
    assert.deepEqual(
      (await list()).find(({ id }) => id === 'paused'),
      told,
    );
    for (const not_claiming of [undefined, null, []])
      assert.deepEqual((await steps.heartbeat('paused', { not_claiming })).not_claiming, []);
  });

  test('may say more than this version reads, at every level', async () => {
    const unknown = { more: { x: [1] }, __proto__: 5 };
    const worker = await steps.heartbeat('newer', {
      ...unknown,
      resources: { ...RESOURCES, ...unknown, gpus: [{ ...GPU, ...unknown, tags: null }] },
      running_ops: [{ ...OP, ...unknown, attempt: 2 }],
    });
    assert.deepEqual(worker.resources, { ...RESOURCES, gpus: [{ ...GPU, tags: [] }] });
    assert.deepEqual(worker.running_ops, [{ ...OP, attempt: 2 }]);
  });

  test('may come with every character that a worker id may have', async () => {
    for (const id of ['w', '9', 'A.b_c-d:e/f', 'w'.repeat(128), 'heartbeat', 'a/../b', 'constructor']) {
      assert.equal((await steps.heartbeat(id)).id, id);
    }
  });

  for (const [change, errors] of REFUSED) {
    test(`is refused with ${JSON.stringify(change)} and registers nobody`, async () => {
      const known = await list();
      const body = { worker_id: 'refused', resources: RESOURCES, tags: [], ...change };
      assertInvalid(await service.send('POST', '/workers/heartbeat', { body }), errors);
      assert.deepEqual(await list(), known);
    });
  }

  test('that is refused leaves a known worker as it was', async () => {
    const worker = await steps.heartbeat('steady', { tags: ['a'], running_ops: [OP] });
    const body = { worker_id: 'steady', resources: RESOURCES, tags: ['b'], running_ops: [{}] };
    assert.equal((await service.send('POST', '/workers/heartbeat', { body })).status, 400);
    assert.deepEqual(
      (await list()).filter(({ id }) => id === 'steady'),
      [worker],
    );
  });

  test('is answered with the timeout that the worker has to keep and the limit of bodies', async () => {
    const body = { worker_id: 'w', resources: RESOURCES, tags: [] };
    const answer = await service.send('POST', '/workers/heartbeat', { body, key: KEYS.worker });
    assert.equal(answer.headers.get('x-worker-timeout'), '42.5');
    assert.equal(answer.headers.get('x-max-body-bytes'), '1048576');
  });

  test('takes no query', async () => {
    const body = { worker_id: 'w', resources: RESOURCES, tags: [] };
    assertInvalid(await service.send('POST', '/workers/heartbeat?x=1', { body }), [
      'x is not a known query parameter',
    ]);
  });

  test('shows in a list of all workers by id', async () => {
    const ids = (await list()).map(({ id }) => id);
    assert.ok(ids.length > 5);
    assert.deepEqual(ids, ids.toSorted());
  });
});
