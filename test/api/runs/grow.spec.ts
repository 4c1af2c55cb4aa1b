import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const LARGEST = 2 ** 31 - 1;
const DOUBLE = { ram_mb: { factor: 2, max: 3000 } };
const GROWING = {
  constraints: { ram_mb: 1024 },
  retry_policy: { max_attempts: 5, grow: DOUBLE },
};
const OOM = { cause: 'oom', exit_code: 137, error_message: 'killed for memory' };

/** What is sent as `grow` beside 1024 MB of RAM, and what is shown of it. */
const TAKEN: readonly (readonly [title: string, sent: unknown, shown: object | undefined])[] = [
  ['a factor and a maximum', DOUBLE, DOUBLE],
  [
    'a factor with decimals and the RAM that it asks for as maximum',
    { ram_mb: { factor: 1.000001, max: 1024 } },
    { ram_mb: { factor: 1.000001, max: 1024 } },
  ],
  [
    'the largest of both, and failures',
    { ram_mb: { factor: 10, max: LARGEST, on: ['oom', 'exit:137', 'exit:1-9'] } },
    { ram_mb: { factor: 10, max: LARGEST, on: ['oom', 'exit:137', 'exit:1-9'] } },
  ],
  ['no failure', { ram_mb: { factor: 2, max: 3000, on: [] } }, { ram_mb: { factor: 2, max: 3000, on: [] } }],
  ['null for the failures', { ram_mb: { factor: 2, max: 3000, on: null } }, DOUBLE],
  ['null', null, undefined],
];

const FACTOR = 'retry_policy.grow.ram_mb.factor must be a number above 1 and at most 10';
const MAX = `retry_policy.grow.ram_mb.max must be an integer from 1 to ${LARGEST}`;
const REFUSED: readonly (readonly [title: string, grow: unknown, ramMb: number | null, problem: RegExp])[] = [
  ...[1, 0, -2, 10.01, '2', true].map(
    (factor) =>
      [`the factor ${JSON.stringify(factor)}`, { ram_mb: { factor, max: 9 } }, 8, exactly(FACTOR)] as const,
  ),
  ...[9.5, LARGEST + 1, '9'].map(
    (max) => [`the maximum ${JSON.stringify(max)}`, { ram_mb: { factor: 2, max } }, 8, exactly(MAX)] as const,
  ),
  ['no factor', { ram_mb: { max: 9 } }, 8, exactly('retry_policy.grow.ram_mb.factor is required')],
  ['no maximum', { ram_mb: { factor: 2 } }, 8, exactly('retry_policy.grow.ram_mb.max is required')],
  [
    'less than it asks for as maximum',
    { ram_mb: { factor: 2, max: 7 } },
    8,
    exactly('retry_policy.grow.ram_mb.max must be at least constraints.ram_mb, 8'),
  ],
  ...[null, 0].map(
    (ramMb) =>
      [
        `a growth from ${ramMb === null ? 'no' : ramMb} RAM`,
        { ram_mb: { factor: 2, max: 7 } },
        ramMb,
        exactly('retry_policy.grow.ram_mb.factor needs constraints.ram_mb, which it multiplies, above 0'),
      ] as const,
  ),
  [
    'a failure of the infrastructure',
    { ram_mb: { factor: 2, max: 9, on: ['infrastructure'] } },
    8,
    /\.on must be a list/,
  ],
  [
    'exit codes in the wrong order',
    { ram_mb: { factor: 2, max: 9, on: ['exit:9-8'] } },
    8,
    exactly('retry_policy.grow.ram_mb.on must have ranges of exit codes from the smaller to the larger one'),
  ],
  ['nothing that grows', {}, 8, exactly('retry_policy.grow.ram_mb is required')],
  ['a number', 2, 8, exactly('retry_policy.grow must be an object')],
  ['cores', { cpu: { factor: 2, max: 9 } }, 8, /retry_policy\.grow\.cpu is not a known field/],
];

function exactly(text: string): RegExp {
  return new RegExp(`^${text.replaceAll('.', '\\.')}$`);
}

/** What a worker has. */
const has = (ramMb: number): Record<string, unknown> => ({
  resources: { cpu_cores: 4, ram_mb: ramMb, gpus: [] },
});

describe('a run that grows', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '3600' } });
  const steps = new RunSteps(service.send);

  afterEach(async () => {
    for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
      for (const { id } of (await service.send('GET', `/runs?limit=100&state=${state}`)).body.data)
        await service.send('POST', `/runs/${id}/cancel`);
    }
    for (const { id } of (await service.send('GET', '/workers')).body)
      await service.send('DELETE', `/workers/${id}`);
  });

  /** Fails the current attempt of a run, which the worker claims first. */
  async function fail(id: string, payload: object = OOM, worker = 'large'): Promise<any> {
    await steps.claimUntil(id, worker);
    return steps.event(id, 'FAILED', payload);
  }

  const amountsOf = async (id: string): Promise<number[]> =>
    (await steps.attempts(id)).map(({ constraints }) => constraints.ram_mb);

  const create = async (grow: object): Promise<number> => {
    const headers = { 'Idempotency-Key': 'growth' };
    const sent = { image: 'i', constraints: { ram_mb: 8 }, retry_policy: { grow } };
    return (await service.send('POST', '/runs', { body: sent, headers })).status;
  };

  for (const [title, sent, shown] of TAKEN) {
    test(`may have ${title}, which every answer shows as it was given`, async () => {
      const options = { constraints: { ram_mb: 1024 }, retry_policy: { max_attempts: 2, grow: sent } };
      const expected = { max_attempts: 2, ...(shown && { grow: shown }) };
      const created = await steps.create(options);
      assert.deepEqual(created.retry_policy, expected);
      assert.deepEqual((await steps.get(created.id)).retry_policy, expected);
      const batch = await service.send('POST', '/runs/batch', {
        body: { runs: [{ image: 'i', ...options }] },
      });
      assert.deepEqual(batch.body.results[0].run.retry_policy, expected);
      const definition = { id: 'grows', version: '1', image: 'i', ...options };
      const stored = await service.send('POST', '/definitions', { body: definition });
      assert.ok(stored.status < 300, stored.text);
      assert.deepEqual(stored.body.retry_policy, expected);
      const made = bodyOf(await service.send('POST', '/definitions/grows/runs', { body: {} }), 'OpRun', 201);
      assert.deepEqual([made.retry_policy, made.constraints], [expected, created.constraints]);
    });
  }

  for (const [title, grow, ramMb, problem] of REFUSED) {
    test(`must not have ${title}, alone, in a batch, in a definition and in a run of one`, async () => {
      const body = { image: 'i', constraints: { ram_mb: ramMb }, retry_policy: { grow } };
      const assertRefused = (
        { status, body: { errors } }: Pick<TestAnswer, 'status' | 'body'>,
        path = '',
      ): void => {
        assert.equal(status, 400, title);
        assert.equal(errors.length, 'cpu' in Object(grow) ? 2 : 1, JSON.stringify(errors));
        assert.match(errors.at(-1).slice(path.length), problem);
      };
      assertRefused(await service.send('POST', '/runs', { body }));
      const batch = await service.send('POST', '/runs/batch', { body: { runs: [body] } });
      const [{ status, error }] = batch.body.results;
      assertRefused({ status, body: error }, error.errors[0].startsWith('runs[0].') ? 'runs[0].' : '');
      const definition = { id: 'refused', version: '1', ...body };
      assertRefused(await service.send('POST', '/definitions', { body: definition }));
      const bare = { id: 'bare', version: '1', image: 'i', constraints: { ram_mb: ramMb } };
      assert.ok((await service.send('POST', '/definitions', { body: bare })).status < 300);
      assertRefused(
        await service.send('POST', '/definitions/bare/runs', { body: { retry_policy: { grow } } }),
      );
    });
  }

  test('shows the amounts of the attempt, and those of the attempts before with them', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create({
      ...GROWING,
      retry_policy: { ...GROWING.retry_policy, backoff_s: 600 },
    });
    const second = await fail(id);
    assert.deepEqual([second.state, second.constraints.ram_mb], ['PENDING', 2048]);
    assert.deepEqual(second.retry_policy, { max_attempts: 5, backoff_s: 600, grow: DOUBLE });
    assert.deepEqual(second.execution_summary, { asked_ram_mb: 1024 });
    const [waiting] = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport').demand.shapes;
    assert.deepEqual([waiting.ram_mb, waiting.waiting], [2048, 1]);
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    const [op] = await steps.claim('large');
    assert.deepEqual([op.id, op.attempt, op.constraints], [id, 2, { ...second.constraints }]);
    const [worker] = bodyOf(await service.send('GET', '/workers'), 'Workers');
    assert.equal(worker.free.ram_mb, 10_000 - 2048);
    const third = await steps.event(id, 'FAILED', OOM);
    assert.deepEqual([third.constraints.ram_mb, third.execution_summary.asked_ram_mb], [3000, 1024]);
    assert.deepEqual(await amountsOf(id), [1024, 2048, 3000]);
    const page = await service.send('GET', `/runs/${id}/attempts?after=1&limit=1`);
    assert.equal(page.body[0].constraints.ram_mb, 2048);
    const [{ constraints, execution_summary: summary }] = (
      await service.send('GET', `/runs?limit=1&state=PENDING`)
    ).body.data;
    assert.deepEqual([constraints.ram_mb, summary.asked_ram_mb], [3000, 1024]);
  });

  test('goes on with a worker that has enough, and says so while there is none', async () => {
    const explain = async (id: string): Promise<any> =>
      bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    await steps.heartbeat('small', has(1024));
    const { id } = await steps.create(GROWING);
    await fail(id, OOM, 'small');
    assert.deepEqual(await steps.claim('small'), []);
    const { summary, workers } = await explain(id);
    assert.equal(
      summary,
      'Number 1 in the queue; no active worker has 2,048 MB of RAM: the run grew from 1,024 MB.',
    );
    assert.deepEqual(workers[0].obstacles, [{ resource: 'ram_mb', needed: 2048, free: 1024, total: 1024 }]);
    const { demand } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    assert.deepEqual([demand.shapes[0].ram_mb, demand.shapes[0].can_start_now], [2048, 0]);
    await steps.heartbeat('large', has(4096));
    assert.match((await explain(id)).summary, /^Number 1 in the queue; 1 worker can take it/);
    assert.deepEqual(await steps.claim('small'), []);
    assert.deepEqual((await steps.claim('large'))[0].constraints.ram_mb, 2048);
    const other = await steps.create({ constraints: { ram_mb: 2049 } });
    assert.deepEqual(await steps.claim('large'), [], 'the rest of the worker is too small');
    await steps.event(id, 'COMPLETED');
    assert.equal((await steps.claim('large'))[0].id, other.id);
  });

  test('that waits after another failure than those of its growth has the amounts that it had', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create(GROWING);
    await fail(id, { cause: 'exit', exit_code: 1 });
    await fail(id, { cause: 'infrastructure', exit_code: 137 });
    await steps.heartbeat('other', has(10_000));
    await fail(id, OOM, 'other');
    assert.deepEqual(await amountsOf(id), [1024, 1024, 1024, 2048]);
  });

  test('has more after a retry by hand of what failed for lack of memory, and as much after others', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create({ ...GROWING, retry_policy: { retry_on: ['exit'], grow: DOUBLE } });
    assert.equal((await fail(id)).state, 'FAILED');
    const retried = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.deepEqual([retried.state, retried.constraints.ram_mb], ['PENDING', 2048]);
    const again = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.equal(again.constraints.ram_mb, 2048);
    const { results } = (await service.send('POST', '/runs/batch/retry', { body: { ids: [id] } })).body;
    assert.ok(results[0].status < 300, JSON.stringify(results));
    assert.deepEqual(await amountsOf(id), [1024, 2048, 2048, 2048]);
    assert.equal((await fail(id)).state, 'FAILED');
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    assert.equal((await steps.get(id)).constraints.ram_mb, 2048, 'a PATCH opens no attempt');
  });

  test('has the amounts in the queue also if it was there before the group that let it grow', async () => {
    await steps.heartbeat('small', has(1500));
    await steps.heartbeat('large', has(4000));
    for (const key of [null, { key: 'k', limit: 1 }]) {
      const { id } = await steps.create({ ...GROWING, concurrency: key });
      const journal = service.app.get(RunJournal);
      await Promise.all([
        journal.change(id, { type: 'patch', keyName: 'admin', state: 'RUNNING' }),
        journal.change(id, eventCommand({ type: 'FAILED', msg: '', payload: OOM })),
      ]);
      assert.deepEqual((await steps.get(id)).constraints.ram_mb, 2048);
      assert.deepEqual(await steps.claim('small'), []);
      assert.equal((await steps.claim('large'))[0].id, id);
      await service.send('POST', `/runs/${id}/cancel`);
      await steps.heartbeat('large', { ...has(4000), running_ops: [] });
    }
  });

  test('of a definition takes what it gives itself, and must fit together with the rest', async () => {
    const runOf = (body: object): Promise<TestAnswer> =>
      service.send('POST', '/definitions/merged/runs', { body });
    const body = { id: 'merged', version: '1', image: 'i', ...GROWING };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    const other = { ram_mb: { factor: 1.5, max: 8000, on: ['timeout'] } };
    const replaced = bodyOf(await runOf({ retry_policy: { grow: other } }), 'OpRun', 201);
    assert.deepEqual(replaced.retry_policy, { max_attempts: 5, grow: other });
    const kept = bodyOf(
      await runOf({ constraints: { ram_mb: 3000 }, retry_policy: { grow: null } }),
      'OpRun',
      201,
    );
    assert.deepEqual([kept.retry_policy.grow, kept.constraints.ram_mb], [DOUBLE, 3000]);
    assertInvalid(await runOf({ constraints: { ram_mb: 3001 } }), [
      'retry_policy.grow.ram_mb.max must be at least constraints.ram_mb, 3001',
    ]);
    assertInvalid(await runOf({ constraints: { ram_mb: 0 } }), [
      'retry_policy.grow.ram_mb.factor needs constraints.ram_mb, which it multiplies, above 0',
    ]);
  });

  test('is told from one that grows otherwise by an idempotency key', async () => {
    assert.equal(await create({ ram_mb: { factor: 2, max: 9 } }), 201);
    assert.equal(await create({ ram_mb: { factor: 2, max: 9 } }), 201);
    assert.equal(await create({ ram_mb: { factor: 2, max: 10 } }), 409);
    assert.equal(await create({ ram_mb: { factor: 2.5, max: 9 } }), 409);
    assert.equal(await create({ ram_mb: { factor: 2, max: 9, on: ['exit'] } }), 409);
  });
});
