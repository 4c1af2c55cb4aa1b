import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const TYPE_RULE = 'type must be 1 to 64 characters of A-Z, 0-9 and _, starting with a letter';
const TYPE_LENGTH = 'type must be a string of 1 to 64 characters';
const MSG_RULE = 'msg must be a string or an integer';
const PERCENTAGE = 'msg must be an integer from 0 to 100';
const WORKER_RULE = 'payload.worker_id must be a string';
const GPU_RULE = 'payload.gpu_id must be an integer';

/** Bodies that break a rule, and the lines that say which. */
const REFUSED: readonly (readonly [body: object, errors: readonly string[]])[] = [
  [{}, ['type is required', 'msg is required']],
  [{ type: 'NOTE' }, ['msg is required']],
  [{ msg: '' }, ['type is required']],
  [{ type: null, msg: null }, ['type is required', 'msg is required']],
  [{ type: 5, msg: '' }, [TYPE_LENGTH]],
  [{ type: '', msg: '' }, [TYPE_LENGTH]],
  [{ type: 'T'.repeat(65), msg: '' }, [TYPE_LENGTH]],
  ...['note', 'Note', '_A', '1A', 'A-B', 'A B', ' A', 'A\n', 'É', 'started', 'toString'].map(
    (type) => [{ type, msg: '' }, [TYPE_RULE]] as const,
  ),
  ...[1.5, true, false, [], {}, -0.5].map((msg) => [{ type: 'NOTE', msg }, [MSG_RULE]] as const),
  ...[[], 'x', 5, true].map(
    (payload) => [{ type: 'NOTE', msg: '', payload }, ['payload must be an object']] as const,
  ),
  [{ type: 'NOTE', msg: '', t: 'now' }, ['t is not a known field']],
  [{ type: 'NOTE', msg: '', state: 'COMPLETED' }, ['state is not a known field']],
  ...[-1, 101, 2 ** 53 - 1, '', '50'].map((msg) => [{ type: 'PROGRESS', msg }, [PERCENTAGE]] as const),
  [{ type: 'STARTED', msg: '' }, [WORKER_RULE]],
  [{ type: 'STARTED', msg: '', payload: null }, [WORKER_RULE]],
  ...[undefined, null, 5, true, {}, ['w']].map(
    (id) => [{ type: 'STARTED', msg: '', payload: { worker_id: id } }, [WORKER_RULE]] as const,
  ),
  ...['0', 0.5, true, [], 2 ** 31].map(
    (id) => [{ type: 'STARTED', msg: '', payload: { worker_id: 'w', gpu_id: id } }, [GPU_RULE]] as const,
  ),
  [{ type: 'STARTED', msg: '', payload: { gpu_id: 'x' } }, [WORKER_RULE, GPU_RULE]],
  ...[[], 'x', 5, false].map(
    (outputs) =>
      [{ type: 'COMPLETED', msg: '', payload: { outputs } }, ['payload.outputs must be an object']] as const,
  ),
  ...[5, {}, [], true].map(
    (message) =>
      [
        { type: 'FAILED', msg: '', payload: { error_message: message } },
        ['payload.error_message must be a string'],
      ] as const,
  ),
  ...['true', 1, {}, []].map(
    (force) =>
      [{ type: 'RETRIED', msg: '', payload: { force } }, ['payload.force must be a boolean']] as const,
  ),
  [{ type: 'RECLAIMED', msg: '' }, ['type RECLAIMED is recorded by the service only']],
  [
    { type: 'RECLAIMED', msg: '', payload: { worker_id: 'w', last_heartbeat_at: 'now' } },
    ['type RECLAIMED is recorded by the service only'],
  ],
];

/** Events that are taken while a run is in execution: message and payload as sent and as recorded. */
const TAKEN: readonly (readonly [type: string, msg: string | number, sent: unknown, kept: object])[] = [
  ['A', '', undefined, {}],
  ['CHECKPOINT_2', 'text', { free: [1, { deep: null }] }, { free: [1, { deep: null }] }],
  ['T'.repeat(64), 0, null, {}],
  ['NOTE', -(2 ** 53 - 1), {}, {}],
  ['NOTE', 2 ** 53 - 1, {}, {}],
  ['NOTE', 'x'.repeat(100_000), {}, {}],
  ['NOTE', 'line\nline\r\n\t\u001b[31m', {}, {}],
  ['CONSTRUCTOR', '', { constructor: { prototype: 1 } }, { constructor: { prototype: 1 } }],
  ['PROGRESS', 0, undefined, {}],
  ['PROGRESS', 100, { step: 'the table asks for none' }, { step: 'the table asks for none' }],
  ['STARTED', 'go', { worker_id: 'w' }, { worker_id: 'w' }],
  ['STARTED', '', { worker_id: 'w', gpu_id: null }, { worker_id: 'w', gpu_id: null }],
  ['STARTED', 7, { worker_id: 'w', gpu_id: 1, more: 1 }, { worker_id: 'w', gpu_id: 1, more: 1 }],
  ['COMPLETED', 'done', undefined, {}],
  ['COMPLETED', 'done', { outputs: null }, { outputs: null }],
  ['COMPLETED', '', { outputs: { a: [1] } }, { outputs: { a: [1] } }],
  ['FAILED', 'no', undefined, {}],
  ['FAILED', '', { error_message: '' }, { error_message: '' }],
  ['CANCELLED', 'stop', { why: 'the table asks for none' }, { why: 'the table asks for none' }],
  ['RETRIED', 'again', { force: true }, { force: true }],
  ['RETRIED', 'again', { force: null }, { force: null }],
  ['RETRIED', 'again', undefined, {}],
];

describe('reporting an event', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let running: { readonly id: string };

  beforeAll(async () => {
    running = await steps.running({ event_delivery: { topic: 't' } });
  });

  for (const [body, errors] of REFUSED) {
    test(`refuses ${JSON.stringify(body)} and records nothing`, async () => {
      assertInvalid(await steps.report(running.id, body), errors);
      assert.deepEqual(
        (await steps.poll(running.id)).map(({ type }) => type),
        ['STARTED'],
      );
    });
  }

  for (const [type, msg, sent, kept] of TAKEN) {
    test(`keeps ${type} ${JSON.stringify(msg).slice(0, 40)} with ${JSON.stringify(sent)} as it was sent`, async () => {
      const { id } = await steps.assigned({ retry_policy: { max_attempts: 2 } });
      const answer = await steps.report(id, { type, msg, ...(sent === undefined ? {} : { payload: sent }) });
      const run = bodyOf(answer, 'OpRun');
      const [first] = run.events;
      assert.deepEqual(first, { id: 0, attempt: 1, type, t: run.updatedAt, msg, payload: kept });
      assert.deepEqual(await steps.get(id), run);
      const [polled] = await steps.poll(id);
      const { attempt: _attempt, ...entry } = first;
      assert.deepEqual(polled, { ...entry, state: run.state });
    });
  }

  test('keeps a payload character by character', async () => {
    const payload = '{"z":0.1,"__proto__":{"x":1},"constructor":null,"toString":[1e-7],"a":"\\"é😀"}';
    await service.send('POST', `/runs/${running.id}/events`, {
      body: `{"type":"NOTE","msg":"","payload":${payload}}`,
    });
    for (const path of ['', '/events', '/attempts']) {
      const { text } = await service.send('GET', `/runs/${running.id}${path}`);
      assert.ok(text.includes(`"payload":${payload}`), text);
    }
  });

  test('stores no field of STARTED, COMPLETED or FAILED that is inherited, not given', async () => {
    const { id } = await steps.assigned();
    const body = '{"type":"COMPLETED","msg":"","payload":{"__proto__":{"outputs":{"bad":1}}}}';
    const run = bodyOf(await service.send('POST', `/runs/${id}/events`, { body }), 'OpRun');
    assert.deepEqual(run.outputs, {});
  });
});
