import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Drain } from '../../../src/common/http/server/drain.js';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { CommitNotices } from '../../../src/database/notices/commit-notices.js';
import { LostRuns } from '../../../src/workers/heartbeats/held-heartbeats.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { issueKey } from '../../support/app/api-keys.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { endListening } from '../../support/postgres/listening-sessions.js';
import { logStatementsByDatabase } from '../../support/postgres/statement-log.js';
import {
  KEYS,
  senderTo,
  startTestApp,
  type TestApp,
  type TestAppOptions,
} from '../../support/app/test-app.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

interface LostOp {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly worker_id: string | null;
}

interface Told {
  readonly lost: readonly LostOp[];
}

const op = (id: string, attempt?: number) => ({
  id,
  image: 'i',
  inputs: {},
  constraints: {},
  ...(attempt === undefined ? {} : { attempt }),
});

/** Whether a heartbeat is still held. */
function watch({ told }: { readonly told: Promise<Told> }): () => boolean {
  let isHeld = true;
  told.finally(() => (isHeld = false)).catch(() => undefined);
  return () => isHeld;
}

describe('a heartbeat that names runs', () => {
  const statements = logStatementsByDatabase();
  let service: TestApp;
  let twin: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    // Two processes that share the pool of workers, as two servers behind one address.
    const env = { SERVICE_WORKER_POOL: 'shared', SERVICE_REAPER_INTERVAL: '3600' };
    service = await startTestApp({ env });
    twin = await startTestApp({ env, database: service.database });
    steps = new RunSteps(service.send);
  });
  const more: TestApp[] = [];
  afterAll(async () => {
    for (const app of [...more, twin, service]) await app.close();
  });

  /** Starts another service, with a database of its own unless it is given. */
  const startOther = async (options: TestAppOptions = {}): Promise<TestApp> => {
    const app = await startTestApp(options);
    more.push(app);
    return app;
  };

  /** What the heartbeat of a worker is told. */
  const beat = async (
    worker: string,
    ops: readonly object[],
    wait = 0,
    by: RunSteps = steps,
  ): Promise<Told> => {
    const query = wait > 0 ? `?wait=${wait}` : '';
    const answer = await by.sendHeartbeat(worker, { running_ops: ops }, query);
    return { lost: bodyOf(answer, 'HeartbeatResponse').lost_ops };
  };

  /** Begins a heartbeat that is held when this returns. */
  const hold = async (worker: string, ops: readonly object[], wait = 30, at = service) => {
    const requests = at.app.get(HeldRequests);
    const { size } = requests;
    const told = beat(worker, ops, wait, new RunSteps(at.send));
    told.catch(() => undefined);
    while (requests.size === size) await sleep(5);
    await sleep(150);
    return { told };
  };

  /** What a heartbeat that may be held for 30 s is told, before those are over. */
  const soon = async ({ told }: { readonly told: Promise<Told> }): Promise<readonly LostOp[]> =>
    (await beforeTimeOut(twin, told)).lost;

  test('is told which of them its worker does not hold, with state and attempt', async () => {
    const foreign = await steps.running({}, 'other');
    const held = await steps.running({}, 'teller');
    const cancelled = await steps.running({}, 'teller');
    await steps.event(cancelled.id, 'CANCELLED');
    const patched = await steps.running({}, 'teller');
    await service.send('PATCH', `/runs/${patched.id}`, { body: { state: 'PENDING', priority: -5 } });
    const retried = await steps.running({}, 'teller');
    await service.send('POST', `/runs/${retried.id}/retry`);
    const named = [held, cancelled, patched, retried, foreign].map(({ id }) => op(id, 1));
    const { lost } = await beat('teller', [...named, op(UNKNOWN, 1), op('no-uuid', 1)]);
    const expected: LostOp[] = [
      { id: cancelled.id, state: 'CANCELLED', attempt: 1, worker_id: 'teller' },
      { id: patched.id, state: 'PENDING', attempt: 1, worker_id: null },
      { id: retried.id, state: 'PENDING', attempt: 2, worker_id: null },
      { id: foreign.id, state: 'RUNNING', attempt: 1, worker_id: 'other' },
    ];
    const byId = (list: readonly LostOp[]) => list.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    assert.deepEqual(byId(lost), byId(expected));
    await service.send('POST', `/runs/${retried.id}/cancel`);
    await service.send('POST', `/runs/${patched.id}/cancel`);
  });

  test('is told of a run that its worker holds at another attempt, if it names the attempt', async () => {
    const { id } = await steps.running({}, 'again');
    await service.send('POST', `/runs/${id}/retry`);
    await steps.claimUntil(id, 'again');
    assert.deepEqual((await beat('again', [op(id, 1)])).lost, [
      { id, state: 'ASSIGNED', attempt: 2, worker_id: 'again' },
    ]);
    for (const named of [op(id, 2), op(id)]) assert.deepEqual((await beat('again', [named])).lost, []);
  });

  for (const [place, at] of [
    ['this process', () => service],
    ['another process', () => twin],
  ] as const) {
    test(`with \`wait\` is answered at once after a change in ${place}`, async () => {
      const changes = [
        ['POST', 'cancel', undefined, 'CANCELLED'],
        ['POST', 'retry', undefined, 'PENDING'],
        ['PATCH', '', { state: 'FAILED' }, 'FAILED'],
        ['POST', 'events', { type: 'CANCELLED', msg: '' }, 'CANCELLED'],
        ['POST', 'events', { type: 'COMPLETED', msg: '' }, 'COMPLETED'],
        ['POST', 'events', { type: 'FAILED', msg: '' }, 'FAILED'],
      ] as const;
      for (const [method, path, body, state] of changes) {
        const { id } = await steps.running({}, 'waiter');
        const kept = await steps.running({}, 'waiter');
        const waiting = await hold('waiter', [op(kept.id, 1), op(id, 1)]);
        const to = `/runs/${id}${path && `/${path}`}`;
        const answer = await at().send(method, to, body ? { body } : {});
        assert.equal(answer.status, 200, answer.text);
        const lost = await soon(waiting);
        assert.deepEqual(
          lost.map((one) => [one.id, one.state]),
          [[id, state]],
        );
        if (state === 'PENDING') await service.send('POST', `/runs/${id}/cancel`);
      }
    });
  }

  test('with `wait` is answered at once if a run is lost already', async () => {
    const { id } = await steps.running({}, 'late');
    await twin.send('POST', `/runs/${id}/cancel`);
    assert.equal((await soon({ told: beat('late', [op(id, 1)], 30) })).length, 1);
  });

  test('with `wait` is answered with an empty list when the time is over', async () => {
    const { id } = await steps.running({}, 'patient');
    const other = await steps.running({}, 'patient');
    const waiting = await hold('patient', [op(id, 1)], 1);
    await twin.send('POST', `/runs/${other.id}/cancel`);
    assert.deepEqual(await soon(waiting), []);
    assert.deepEqual(await soon(await hold('patient', [], 1)), [], 'the same without runs');
  });

  test('with `wait` is answered although the connection that listens is lost', async () => {
    const { id } = await steps.running({}, 'deaf');
    const waiting = await hold('deaf', [op(id, 1)]);
    await endListening(service.database.dataSource);
    await twin.send('POST', `/runs/${id}/cancel`);
    assert.equal((await soon(waiting)).length, 1);
  });

  test('with `wait` is not disturbed by the reports of its own worker', async () => {
    const { id } = await steps.running({}, 'busy');
    const later = await steps.running({}, 'witness');
    const waiting = await hold('busy', [op(id, 1)]);
    const isHeld = watch(waiting);
    const witness = await hold('witness', [op(later.id, 1)]);
    await steps.report(id, { type: 'COMPLETED', msg: '' }, { worker: 'busy', attempt: 1 });
    await twin.send('POST', `/runs/${later.id}/cancel`);
    assert.equal((await soon(witness)).length, 1);
    assert.ok(isHeld(), 'a later change has been told');
    assert.equal((await beat('busy', [op(id, 1)])).lost[0]?.state, 'COMPLETED');
  });

  test('with `wait` counts from its arrival', async () => {
    const short = await startOther({ env: { SERVICE_WORKER_TIMEOUT: '1' } });
    const there = new RunSteps(short.send);
    const held = await hold('counted', [], 30, short);
    const isHeld = watch(held);
    const worker = async () => (await short.send('GET', '/workers')).body[0];
    assert.equal((await worker()).id, 'counted', 'it is recorded at once');
    while ((await worker()).is_active) await sleep(50);
    assert.ok(isHeld());
    await there.heartbeat('counted');
    await held.told;
  });

  test('with `wait` is answered when the service stops', async () => {
    const stopping = await startOther({
      env: { SERVICE_WORKER_POOL: 'shared' },
      database: service.database,
    });
    const { id } = await steps.running({}, 'stopped');
    const waiting = await hold('stopped', [op(id, 1)], 30, stopping);
    const drained = stopping.app.get(Drain).begin();
    assert.deepEqual(await soon(waiting), []);
    await drained;
  });

  test('takes whole seconds from 0 to 30, else it is not recorded', async () => {
    for (const value of ['-1', '31', '1.5', 'x', '']) {
      const answer = await steps.sendHeartbeat('refused', {}, `?wait=${value}`);
      assertInvalid(answer, [
        value === '' ? 'wait must not be empty' : 'wait must be an integer from 0 to 30',
      ]);
    }
    const { body } = await service.send('GET', '/workers');
    assert.ok(body.every(({ id }: { id: string }) => id !== 'refused'));
  });

  test('with a key that is bound to its worker is told only of runs that it holds or held', async () => {
    const { key } = await issueKey(service, ['worker'], { worker_ids: ['bound'] });
    const bound = new RunSteps(senderTo(service.url, key));
    const mine = await steps.running({}, 'bound');
    const retried = await steps.running({}, 'bound');
    await service.send('POST', `/runs/${retried.id}/retry`);
    await steps.claimUntil(retried.id, 'other');
    const foreign = await steps.running({}, 'other');
    const pending = await steps.create({ priority: -9 });
    await service.send('POST', `/runs/${mine.id}/cancel`);
    const named = [mine, retried, foreign, pending].map(({ id }) => op(id, 1));
    const { lost } = await beat('bound', named, 0, bound);
    assert.deepEqual(new Set(lost.map(({ id }) => id)), new Set([mine.id, retried.id]));
    const all = await beat('bound', named, 0, new RunSteps(senderTo(service.url, KEYS.worker)));
    assert.equal(all.lost.length, 4, 'another key is told of all');
    await service.send('POST', `/runs/${pending.id}/cancel`);
  });

  test('costs no statement without runs, none while it waits, and shares one with those of the same turn', async () => {
    const alone = await startOther();
    const there = new RunSteps(alone.send);
    const workers: { readonly id: string; readonly ops: readonly ReturnType<typeof op>[] }[] = [];
    for (let n = 0; n < 30; n += 1) {
      const runs = [await there.running({}, `w${n}`), await there.running({}, `w${n}`)];
      workers.push({ id: `w${n}`, ops: runs.map(({ id }) => op(id, 1)) });
    }
    await there.heartbeat('idle');
    const sent = statements(alone.database.url);
    const looks = () => sent.filter((statement) => statement.includes('bound_key')).length;
    sent.length = 0;
    for (let n = 0; n < 30; n += 1) await beat('idle', [], 0, there);
    assert.equal(looks(), 0);
    const lostRuns = alone.app.get(LostRuns);
    const controller = new AbortController();
    const { signal } = controller;
    const reported = workers.map(({ id, ops }) =>
      ops.map((run) => ({ ...run, workerId: id, attempt: 1, boundKey: null })),
    );
    const found = await Promise.all(reported.map((runs, n) => lostRuns.find(`w${n}`, runs, [])));
    assert.deepEqual(
      found.map(({ lost }) => lost),
      reported.map(() => []),
    );
    assert.equal(looks(), 1);
    const waits = reported.map((runs, n) => lostRuns.wait(`w${n}`, runs, [], { signal, forMs: 30_000 }));
    while (!alone.app.get(CommitNotices).isListening) await sleep(5);
    // Looks that began before the service listened are repeated.
    await sleep(1_000);
    sent.length = 0;
    await sleep(1_000);
    assert.equal(looks(), 0, 'waiting costs none');
    controller.abort();
    assert.deepEqual(
      (await Promise.all(waits)).flatMap(({ lost }) => lost),
      [],
    );
  });
});
