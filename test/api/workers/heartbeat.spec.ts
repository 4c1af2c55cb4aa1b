import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { each, type Refusal } from '../../support/runs/refusals.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const ID_RULE =
  'worker_id must be a worker id (letters, digits and . _ - : /, starting with a letter or digit) of 1 to 128 characters';
const COUNT = 'must be an integer of at least 0';
const GPU = { id: 0, vram_mb: 1 };
const OP = { id: 'r', image: 'i', inputs: {}, constraints: {} };
const RESOURCES = { cpu_cores: 1, ram_mb: 1, gpus: [] };

const resources = (change: object) => ({ resources: { ...RESOURCES, ...change } });
const gpus = (...given: readonly unknown[]) => resources({ gpus: given });
const ops = (...given: readonly unknown[]) => ({ running_ops: given });
const engine = (change: object) => ({ engine: { name: 'slurm', pending: 0, running: 0, ...change } });
const counts = [-1, 0.5, '1', true];

/** What is wrong with a heartbeat, as fields to change in a good one, and the lines that say so. */
const REFUSED: readonly Refusal[] = [
  ...['worker_id', 'resources', 'tags'].map((name): Refusal => [{ [name]: null }, [`${name} is required`]]),
  ...each(ID_RULE, (worker_id) => ({ worker_id }), [
    '',
    ' w',
    '-w',
    '.w',
    '/w',
    ':w',
    'w w',
    'wü',
    'w%',
    'w\n',
    'w'.repeat(129),
    5,
    {},
  ]),
  [{ resources: [] }, ['resources must be an object']],
  [{ resources: {} }, ['cpu_cores', 'ram_mb', 'gpus'].map((name) => `resources.${name} is required`)],
  ...each(`resources.cpu_cores ${COUNT}`, (cpu_cores) => resources({ cpu_cores }), counts),
  ...each(`resources.ram_mb ${COUNT}`, (ram_mb) => resources({ ram_mb }), counts),
  ...each(`resources.gpus[1].vram_mb ${COUNT}`, (vram_mb) => gpus(GPU, { id: 1, vram_mb }), counts),
  ...each('resources.gpus[0].id must be an integer from 0 to 2147483647', (id) => gpus({ ...GPU, id }), [
    ...counts,
    2 ** 31,
  ]),
  [resources({ gpus: {} }), ['resources.gpus must be a list of at most 64 items']],
  ...each('resources.gpus[0] must be an object', (gpu) => gpus(gpu), [5, null]),
  [
    gpus({ ...GPU, tags: 'a100' }),
    [
      'resources.gpus[0].tags must be a list of at most 100 items, each a string without control characters of at most 128 characters',
    ],
  ],
  [
    gpus(GPU, { ...GPU, id: 1 }, GPU, GPU),
    [2, 3].map((n) => `resources.gpus[${n}].id must not repeat the id of another GPU`),
  ],
  ...each('away_s must be an integer from 1 to 86400', (away_s) => ({ away_s }), [0, -1, 1.5, '60', 86_401]),
  [{ not_claiming: {} }, ['not_claiming must be a list of at most 5 items']],
  [{ not_claiming: [{}] }, ['not_claiming[0].reason is required']],
  [
    { not_claiming: [{ reason: 'tired', message: 'x'.repeat(501) }] },
    [
      'not_claiming[0].reason must be one of: draining, recovering, engine_paused, disk_full, key_refused',
      'not_claiming[0].message must be a string without control characters of at most 500 characters',
    ],
  ],
  [
    { unable: [{ ability: 'fly' }] },
    ['unable[0].ability must be one of: gpus, ram_limit, cpu_limit, pids_limit'],
  ],
  ...each(
    'tags must be a list of at most 100 items, each a string without control characters of at most 128 characters',
    (tags) => ({ tags }),
    ['a', {}, [1], [null], [['a']]],
  ),
  [{ engine: 'slurm' }, ['engine must be an object']],
  [{ engine: {} }, ['name', 'pending', 'running'].map((name) => `engine.${name} is required`)],
  ...each('engine.name must be a name of a-z, 0-9 and - of 1 to 64 characters', (name) => engine({ name }), [
    '',
    'Slurm',
    'a b',
    'x'.repeat(65),
    1,
  ]),
  ...each('engine.pending must be an integer from 0 to 2147483647', (pending) => engine({ pending }), [
    ...counts,
    2 ** 31,
  ]),
  [{ running_ops: {} }, ['running_ops must be a list of at most 1000 items']],
  [ops('r'), ['running_ops[0] must be an object']],
  [ops(OP, {}), ['id', 'image', 'inputs', 'constraints'].map((name) => `running_ops[1].${name} is required`)],
  [
    ops({ ...OP, id: 5 }),
    ['running_ops[0].id must be a string without control characters of 1 to 128 characters'],
  ],
  [
    ops({ ...OP, image: 5 }),
    ['running_ops[0].image must be a string without control characters of at most 512 characters'],
  ],
  [ops({ ...OP, inputs: [] }), ['running_ops[0].inputs must be an object']],
  [ops({ ...OP, constraints: 'x' }), ['running_ops[0].constraints must be an object']],
  ...each('running_ops[0].attempt must be an integer from 1 to 1000', (attempt) => ops({ ...OP, attempt }), [
    0,
    1001,
    1.5,
    '1',
  ]),
];

describe('a heartbeat', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '42.5', SERVICE_WORKER_AWAY_MAX_S: '90' } });
  const steps = new RunSteps(service.send);

  /** The workers as listed, but for what they have left, which the answer to a heartbeat does not tell. */
  const list = async (): Promise<{ readonly id: string; readonly away_until?: string }[]> => {
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

  const countUnable = async () =>
    /^longshore_workers_unable\{ability="gpus"\} (\d+)$/m.exec(
      (await service.send('GET', '/metrics')).text,
    )?.[1];

  test('says what its machine is unable to do until one without a reason, and the metric counts it', async () => {
    const unable = [{ ability: 'gpus', message: 'no driver' }];
    const told = await steps.heartbeat('unable', { unable });
    assert.deepEqual(told.unable, unable);
    assert.deepEqual(
      (await list()).find(({ id }) => id === 'unable'),
      told,
    );
    assert.deepEqual(told.not_claiming, []);
    assert.equal(await countUnable(), '1');
    assert.deepEqual((await steps.heartbeat('unable', {})).unable, []);
  });

  test('may say that the worker will be away, for no longer than the setting allows; the next one ends that', async () => {
    const held = await steps.assigned({}, 'leaves');
    const leaving = await steps.heartbeat('leaves', {
      running_ops: [{ ...OP, id: held.id }],
      away_s: 3600,
    });
    const { away_until: until } = leaving;
    assert.equal(leaving.is_active, false);
    assert.equal(Date.parse(until) - Date.parse(leaving.last_heartbeat_at), 90_000);
    const { holder, summary } = bodyOf(
      await service.send('GET', `/runs/${held.id}/explain`),
      'RunExplanation',
    );
    assert.deepEqual([holder.is_active, holder.away_until], [false, until]);
    assert.equal(
      summary,
      `Assigned to worker 'leaves', which is away until ${until}, such as for an upgrade: the run goes on.`,
    );
    const { supply } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    assert.equal(supply.workers.away, 1);
    assert.equal((await list()).find(({ id }) => id === 'leaves')?.away_until, until);
    const back = await steps.heartbeat('leaves', { running_ops: [{ ...OP, id: held.id }] });
    assert.deepEqual([back.is_active, 'away_until' in back], [true, false]);
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
});
