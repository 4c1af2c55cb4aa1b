import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const STATES = ['PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED'] as const;
const KNOWN_STATES = [`a state is one of ${STATES.join(', ')}`];
const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const PRIORITY = `priority must be an integer from ${-(2 ** 31)} to ${2 ** 31 - 1}`;

/** Bodies that are refused: the detail, and the lines of a refusal by fields. */
const REFUSED: readonly (readonly [body: unknown, detail: string, errors?: readonly string[]])[] = [
  [{ state: 'DONE' }, `Invalid state 'DONE'`, KNOWN_STATES],
  [{ state: '' }, `Invalid state ''`, KNOWN_STATES],
  [{ state: 'constructor' }, `Invalid state 'constructor'`, KNOWN_STATES],
  [{ state: 'PENDING ' }, `Invalid state 'PENDING '`, KNOWN_STATES],
  [{ state: 'DONE', priority: 5, outputs: { a: 1 } }, `Invalid state 'DONE'`, KNOWN_STATES],
  ...[5, true, [], {}].map((state) => [{ state }, ...invalid('state must be a string')] as const),
  ...[1.5, '1', 2 ** 31, -(2 ** 31) - 1, true, {}].map(
    (priority) => [{ priority }, ...invalid(PRIORITY)] as const,
  ),
  ...[[], 'x', 5, false].map((outputs) => [{ outputs }, ...invalid('outputs must be an object')] as const),
  [{ state: 'PENDING', progress: 5 }, ...invalid('progress is not a known field')],
  [{ image: 'other' }, ...invalid('image is not a known field')],
  [
    { state: 5, priority: 'x', outputs: 1 },
    ...invalid('state must be a string', 'outputs must be an object', PRIORITY),
  ],
  [[], ...invalid('the body must be a JSON object')],
  ['null', ...invalid('the body must be a JSON object')],
  ['{"priority":1,"priority":2}', 'Malformed JSON body: duplicate key at character 15'],
  ['{"priority":', 'Malformed JSON body: syntax error at character 13'],
];

describe('PATCH of a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const patch = (id: string, body: unknown, key: string = KEYS.admin): Promise<TestAnswer> =>
    service.send('PATCH', `/runs/${id}`, { body, key });
  const patched = async (id: string, body: unknown): Promise<Json> => bodyOf(await patch(id, body), 'OpRun');

  for (const to of STATES) {
    test(`sets ${to}, which the current attempt follows and neither timeline nor feed shows`, async () => {
      const found = await steps.inState(to === 'RUNNING' ? 'FAILED' : 'RUNNING', {
        event_delivery: { topic: 'patched' },
      });
      const timeline = await steps.poll(found.id);
      const feed = await feedSize();
      const run = await patched(found.id, { state: to });
      assert.deepEqual(await steps.get(run.id), run);
      assert.deepEqual([run.state, run.events], [to, found.events]);
      const [attempt, ...others] = await steps.attempts(run.id);
      assert.deepEqual(others, []);
      assert.deepEqual([attempt.state, attempt.execution_summary], [to, run.execution_summary]);
      assert.equal(attempt.started_at, run.execution_summary.started_at ?? null);
      assert.equal(attempt.finished_at, run.execution_summary.finished_at ?? null);
      const states = timeline.map((entry) => ({ ...entry, state: to }));
      assert.deepEqual(await steps.poll(run.id), states);
      assert.equal(await feedSize(), feed);
      await assertBehaves(run.id, to);
    });
  }

  /** What the state that was set promises. */
  async function assertBehaves(id: string, state: string): Promise<void> {
    if (state === 'PENDING') {
      await steps.heartbeat('next');
      await steps.claimUntil(id, 'next');
      const run = await steps.event(id, 'COMPLETED', { outputs: { done: true } });
      assert.deepEqual([run.state, run.execution_summary.worker_id], ['COMPLETED', 'next']);
      return;
    }
    await steps.emptyQueue('sweeper');
    assert.equal((await steps.get(id)).state, state, 'no claim takes it');
    if (state === 'ASSIGNED' || state === 'RUNNING') {
      assert.equal((await steps.event(id, 'COMPLETED')).state, 'COMPLETED');
      return;
    }
    const locked = `Run is already in terminal state ${state}`;
    assertError(await steps.report(id, { type: 'NOTE', msg: '' }), 400, locked);
    assertError(await service.send('POST', `/runs/${id}/cancel`), 400, locked);
    assert.equal(bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun').state, 'PENDING');
  }

  async function feedSize(): Promise<number> {
    const [row] = await rows<{ n: number }>(
      service.dataSource,
      'select count(*)::integer as n from feed_entries',
    );
    return row?.n ?? -1;
  }

  test('replaces the outputs as a whole, in any state, and lets them stand until the run completes with its own', async () => {
    const { id } = await steps.create({ outputs: { a: 1, b: { c: 2 } }, priority: 2 ** 31 - 1 });
    const odd = '{"b":{"d":[1e-7]},"__proto__":{"x":1},"constructor":null}';
    const answer = await patch(id, `{"outputs":${odd}}`);
    assert.ok(answer.text.includes(`"outputs":${odd},`), answer.text);
    assert.ok((await service.send('GET', `/runs/${id}`)).text.includes(`"outputs":${odd},`));
    const [attempt] = await steps.attempts(id);
    assert.equal(JSON.stringify(attempt.outputs), odd);
    assert.deepEqual((await patched(id, { outputs: {} })).outputs, {});
    await steps.heartbeat();
    await steps.claimUntil(id);
    assert.deepEqual((await patched(id, { outputs: { z: 1 } })).outputs, { z: 1 });
    assert.deepEqual((await steps.event(id, 'COMPLETED', { outputs: { own: 1 } })).outputs, { own: 1 });
    assert.deepEqual((await patched(id, { outputs: { late: 1 } })).outputs, { late: 1 });
    // A new attempt starts with what the run was created with.
    const retried = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.deepEqual(retried.outputs, { a: 1, b: { c: 2 } });
    assert.deepEqual((await steps.attempts(id))[0].outputs, { late: 1 });
  });

  test('puts a run back into the queue where its age and its new priority belong', async () => {
    await steps.emptyQueue();
    const { id: old } = await steps.create();
    assert.deepEqual(
      (await steps.claim()).map(({ id }) => id),
      [old],
    );
    const { id: young } = await steps.create();
    const { id: urgent } = await steps.create({ priority: 5 });
    await patched(old, { state: 'PENDING', priority: 0 });
    const order = [];
    for (let i = 0; i < 3; i += 1) order.push((await steps.claim())[0].id);
    assert.deepEqual(order, [urgent, old, young]);
    assert.deepEqual(await steps.claim(), []);
  });

  test('leaves the priority of a run that is not in the queue without effect on the queue', async () => {
    const { id } = await steps.running();
    assert.equal((await patched(id, { priority: 9 })).priority, 9);
    await steps.emptyQueue();
    assert.equal((await steps.get(id)).state, 'RUNNING');
  });

  for (const body of [{}, { state: null, priority: null, outputs: null }]) {
    test(`changes nothing but updatedAt by ${JSON.stringify(body)}`, async () => {
      const run = await steps.running();
      const changed = await patched(run.id, body);
      assert.deepEqual(without(changed, 'updatedAt'), without(run, 'updatedAt'));
      assert.ok(changed.updatedAt >= run.updatedAt);
    });
  }

  for (const [body, detail, errors] of REFUSED) {
    test(`refuses ${JSON.stringify(body)} and changes nothing`, async () => {
      const run = await steps.running();
      const entries = await auditSize();
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      assertError(await patch(run.id, sent), 400, detail, errors);
      assert.deepEqual(await steps.get(run.id), run);
      assert.equal(await auditSize(), entries);
      // What is wrong with the body is said before the run is looked for.
      assert.equal((await patch(NOBODY, sent)).status, 400);
    });
  }

  async function auditSize(): Promise<number> {
    const [row] = await rows<{ n: number }>(
      service.dataSource,
      'select count(*)::integer as n from audit_entries',
    );
    return row?.n ?? -1;
  }
});

/** The object without one of its fields. */
function without(object: Json, name: string): Json {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}

function invalid(...errors: string[]): readonly [string, readonly string[]] {
  return ['Request validation failed', errors];
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
