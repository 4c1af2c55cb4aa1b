import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What a worker has. */
const has = (cpu: number, ramMb: number, ...gpus: readonly number[]): Record<string, unknown> => ({
  resources: {
    cpu_cores: cpu,
    ram_mb: ramMb,
    gpus: gpus.map((vramMb, id) => ({ id, vram_mb: vramMb, tags: [] })),
  },
});

/** Puts rows without runs into the queue, at priority 0. */
function fillQueue({ dataSource }: TestApp, count: number): Promise<number> {
  return execute(
    dataSource,
    `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
     select gen_random_uuid(), 0, now(), 0, 0, 0 from generate_series(1, $1)`,
    [count],
  );
}

const NONE = { not_claiming: 0, away: 0, stale: 0 };

describe('an explanation', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  async function explain(id: string, key: string = KEYS.client): Promise<any> {
    return bodyOf(await service.send('GET', `/runs/${id}/explain`, { key }), 'RunExplanation');
  }

  test('of a pending run tells its place in the queue and who can take it', async () => {
    const first = await steps.create({ priority: 1 });
    const second = await steps.create({ priority: 1 });
    const ahead = await steps.create({ priority: 2 });
    const explanation = await explain(second.id);
    assert.equal(explanation.queue.position, 3);
    assert.equal(explanation.queue.position_is_exact, true);
    assert.equal(explanation.queue.queued_at, second.createdAt);
    assert.ok(explanation.queue.waiting_ms >= 0);
    assert.deepEqual(
      [explanation.run_id, explanation.state, explanation.attempt, explanation.strategy],
      [second.id, 'PENDING', 1, 'direct'],
    );
    assert.deepEqual([explanation.holder, explanation.ended, explanation.deadline], [null, null, null]);
    assert.deepEqual(explanation.workers, [
      {
        id: 'w',
        can_take_now: true,
        could_ever: true,
        draining: false,
        not_claiming: [],
        unable: [],
        ending: null,
        obstacles: [],
      },
    ]);
    assert.deepEqual(explanation.counts, { ...NONE, active: 1, draining: 0, able_now: 1, able_ever: 1 });
    assert.equal(
      explanation.summary,
      'Number 3 in the queue; 1 worker can take it as soon as it is their turn.',
    );
    assert.equal((await explain(first.id)).queue.position, 2);
    assert.equal((await explain(ahead.id)).queue.position, 1);
  });

  test('of a run that is too large says that the strategy ignores that, and that the worker will refuse it', async () => {
    const { id } = await steps.create({ constraints: { cpu: 10_000 } });
    const ignores =
      "the strategy 'direct' ignores resources, and a worker that has too little will refuse it";
    const { workers, summary } = await explain(id);
    assert.deepEqual([workers[0].can_take_now, workers[0].could_ever], [true, false]);
    assert.equal(summary, `Number 1 in the queue; no active worker could ever execute it: ${ignores}.`);
    await steps.heartbeat('large', has(10_000, 1_000_000));
    const both = (await explain(id)).summary;
    await service.send('DELETE', '/workers/large');
    assert.ok(both.endsWith(`; 2 workers can take it as soon as it is their turn: ${ignores}.`), both);
  });

  test('counts places in a long queue up to 10,000', async () => {
    const { id } = await steps.create({ priority: -1 });
    try {
      await fillQueue(service, 9_999);
      const { position: last, position_is_exact: isExact } = (await explain(id)).queue;
      assert.deepEqual([last, isExact], [10_000, true]);
      await fillQueue(service, 20_000);
      const { queue, summary } = await explain(id);
      assert.deepEqual([queue.position, queue.position_is_exact], [10_000, false]);
      assert.match(summary, /^At or after position 10000 in the queue;/);
    } finally {
      await execute(service.dataSource, 'delete from queue where priority = 0');
    }
  });

  test('of a run in back-off says until when, why its last attempt failed, and that nobody can take it', async () => {
    const { id } = await steps.running({ retry_policy: { max_attempts: 2, backoff_s: 600 } });
    await steps.event(id, 'FAILED', { error_message: 'broke' });
    const { attempt, queue, workers, counts, summary, deadline } = await explain(id);
    assert.equal(attempt, 2);
    assert.equal(queue.position, null);
    assert.ok(Date.parse(queue.not_before) > Date.now());
    const why = "attempt 1 failed with worker 'w'; cause error: broke";
    assert.equal(summary, `In back-off until ${queue.not_before}: ${why}.`);
    assert.deepEqual([workers[0].can_take_now, counts.able_now, counts.able_ever], [false, 0, 1]);
    assert.equal(deadline, null);
    await service.send('POST', `/runs/${id}/cancel`);
  });

  test('of a run in execution tells its worker and the last contact with it', async () => {
    const { id } = await steps.assigned({ timeouts: { start_within_s: 60, attempt_s: 600 } });
    const assigned = await explain(id);
    assert.equal(assigned.deadline.budget, 'start_within_s');
    assert.equal(assigned.holder.started_at, null);
    assert.deepEqual([assigned.queue, assigned.workers, assigned.counts], [null, [], null]);
    assert.match(assigned.summary, /^Assigned to worker 'w', which is active but has not reported/);

    const run = await steps.event(id, 'STARTED', { worker_id: 'w' });
    const op = { id, image: 'image', inputs: {}, constraints: {} };
    const worker = await steps.heartbeat('w', { running_ops: [op] });
    const { holder, deadline, summary } = await explain(id);
    assert.deepEqual(holder, {
      worker_id: 'w',
      is_active: true,
      away_until: null,
      draining: false,
      last_heartbeat_at: worker.last_heartbeat_at,
      silent_ms: holder.silent_ms,
      assigned_at: run.execution_summary.assigned_at,
      started_at: run.execution_summary.started_at,
      reported_running: true,
      ending: null,
      engine: null,
      preparing: null,
    });
    assert.equal(deadline.budget, 'attempt_s');
    assert.equal(Date.parse(deadline.at) - Date.parse(holder.started_at), 600_000);
    assert.ok(deadline.remaining_ms > 590_000 && deadline.remaining_ms <= 600_000);
    assert.equal(summary, "Running on worker 'w', which is active.");
  });

  test('of a run that an admin put into execution names nobody', async () => {
    const { id } = await steps.create();
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
    const { holder, summary } = await explain(id);
    assert.deepEqual([holder.worker_id, holder.is_active, holder.last_heartbeat_at], [null, false, null]);
    assert.equal(summary, 'Put into RUNNING by an admin.');
  });

  for (const [state, event] of [
    ['COMPLETED', 'COMPLETED'],
    ['FAILED', 'FAILED'],
    ['CANCELLED', 'CANCELLED'],
  ] as const) {
    test(`of a run that is ${state} tells by what and when it ended`, async () => {
      const { id } = await steps.inState(state);
      const run = await steps.get(id);
      const { ended, summary, queue, holder, workers } = await explain(id);
      const cause = state === 'FAILED' ? 'error' : null;
      const at = run.execution_summary.finished_at;
      assert.deepEqual(ended, {
        at,
        event,
        msg: '',
        worker_id: 'w',
        cause,
        exit_code: null,
        error_message: null,
      });
      const why = cause === null ? '' : '; cause error';
      assert.equal(summary, `${state} by the event ${event} at ${at}, last with worker 'w'${why}.`);
      assert.deepEqual([queue, holder, workers], [null, null, []]);
    });
  }

  test('of a failed run shows cause, exit code and message', async () => {
    const { id } = await steps.running();
    const message = `Ended with exit code 3. Its last log lines:\nlast line ${'\u{1F600}'.repeat(300)}`;
    await steps.event(id, 'FAILED', { error_message: message, cause: 'exit', exit_code: 3 });
    const { ended, summary } = await explain(id);
    assert.deepEqual([ended.cause, ended.exit_code, ended.error_message], ['exit', 3, message]);
    assert.ok(summary.endsWith("last with worker 'w'; cause exit: Ended with exit code 3."), summary);
  });

  test('of a run that an admin ended names no event', async () => {
    const { id } = await steps.running();
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'COMPLETED' } });
    const { ended, summary } = await explain(id);
    assert.deepEqual([ended.event, ended.msg], [null, null]);
    assert.match(summary, /^COMPLETED set by an admin at /);
  });
});

describe('an explanation of workers', () => {
  const service = useTestApp({
    env: { SERVICE_SCHEDULER: 'fit', SERVICE_FIT_RESERVE_AFTER: '0', SERVICE_WORKER_TIMEOUT: '600' },
  });
  const steps = new RunSteps(service.send);

  async function explain(id: string): Promise<any> {
    return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
  }

  test('says by which resource and by how much each is short, the most able first', async () => {
    await steps.heartbeat('a-small', has(2, 100));
    await steps.heartbeat('b-busy', has(8, 100, 24));
    await steps.create({ constraints: { cpu: 5, vram_mb: 8 } });
    assert.equal((await steps.claim('b-busy')).length, 1);
    await steps.heartbeat('c-idle', has(8, 100, 24));
    await steps.heartbeat('d-drained', has(8, 100, 24));
    await service.send('POST', '/workers/d-drained/drain');
    const { id } = await steps.create({ constraints: { cpu: 4, vram_mb: 20 } });
    const { workers, counts, summary } = await explain(id);
    assert.deepEqual(workers, [
      {
        id: 'c-idle',
        can_take_now: true,
        could_ever: true,
        draining: false,
        not_claiming: [],
        unable: [],
        ending: null,
        obstacles: [],
      },
      {
        id: 'b-busy',
        can_take_now: false,
        could_ever: true,
        draining: false,
        not_claiming: [],
        unable: [],
        ending: null,
        obstacles: [
          { resource: 'cpu', needed: 4, free: 3, total: 8 },
          { resource: 'vram_mb', needed: 20, free: 16, total: 24 },
        ],
      },
      {
        id: 'd-drained',
        can_take_now: false,
        could_ever: true,
        draining: true,
        not_claiming: [],
        unable: [],
        ending: null,
        obstacles: [],
      },
      {
        id: 'a-small',
        can_take_now: false,
        could_ever: false,
        draining: false,
        not_claiming: [],
        unable: [],
        ending: null,
        obstacles: [
          { resource: 'cpu', needed: 4, free: 2, total: 2 },
          { resource: 'vram_mb', needed: 20, free: 0, total: 0 },
        ],
      },
    ]);
    assert.deepEqual(counts, { ...NONE, active: 4, draining: 1, able_now: 1, able_ever: 2 });
    assert.match(summary, /1 worker can take it/);
    assert.deepEqual(
      (await steps.claim('c-idle')).map((op) => op.id),
      [id],
    );
    for (const name of ['a-small', 'b-busy', 'c-idle']) await service.send('POST', `/workers/${name}/drain`);
  });

  test('tells which worker is kept free for a run, and that it can take nothing else', async () => {
    await steps.heartbeat('keeper', has(4, 100));
    const { id: held } = await steps.create({ priority: 9, constraints: { cpu: 1 } });
    await steps.claim('keeper');
    const big = await steps.create({ priority: 5, constraints: { cpu: 4 } });
    await steps.create({ constraints: { cpu: 1 } });
    assert.equal((await steps.claim('keeper')).length, 1);
    const passed = await explain(big.id);
    assert.notEqual(passed.queue.passed_over_at, null);
    const small = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(await steps.claim('keeper'), []);

    const kept = await explain(big.id);
    assert.equal(kept.queue.reserved_for, 'keeper');
    assert.match(
      kept.summary,
      /1 worker could take it, but none of them now; worker 'keeper' is reserved for it/,
    );
    const behind = await explain(small.id);
    const [keeper] = behind.workers;
    assert.deepEqual(
      [keeper.id, keeper.can_take_now, keeper.could_ever, keeper.obstacles],
      ['keeper', false, true, [{ resource: 'reserved', needed: 1, free: 0, total: 1 }]],
    );
    await steps.event(held, 'COMPLETED');
    assert.deepEqual(await steps.claim('keeper'), []);
  });

  test('says that no active worker could ever take a run, also while all of them are draining', async () => {
    const { id } = await steps.create({ constraints: { cpu: 500 } });
    assert.match((await explain(id)).summary, /; no active worker could ever take it\.$/);
    const registered: { id: string; draining: boolean }[] = (await service.send('GET', '/workers')).body;
    const listed = registered.filter(({ draining }) => !draining);
    for (const worker of listed) await service.send('POST', `/workers/${worker.id}/drain`);
    assert.match((await explain(id)).summary, /; no active worker could ever take it\.$/);
    const small = await steps.create({ constraints: { cpu: 1 } });
    assert.match((await explain(small.id)).summary, /; every active worker is draining\.$/);
    for (const worker of listed) await service.send('POST', `/workers/${worker.id}/resume`);
    for (const run of [id, small.id]) await service.send('POST', `/runs/${run}/cancel`);
  });

  test('counts those that are stale, and shows 100 at most', async () => {
    const { id } = await steps.create({ constraints: { cpu: 3 } });
    for (let i = 0; i < 105; i += 1) await steps.heartbeat(`many-${i}`, has(i < 3 ? 3 : 1, 1));
    const { workers, counts } = await explain(id);
    assert.equal(workers.length, 100);
    assert.deepEqual(
      workers.slice(0, 4).map((worker: any) => [worker.id, worker.can_take_now]),
      [
        ['many-0', true],
        ['many-1', true],
        ['many-2', true],
        ['keeper', false],
      ],
    );
    assert.deepEqual([counts.able_now, counts.able_ever, counts.stale], [3, 4, 0]);
  });
});
