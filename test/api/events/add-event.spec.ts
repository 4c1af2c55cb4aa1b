import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { each, type Refusal } from '../../support/runs/refusals.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const TYPE_LENGTH = 'type must be a string of 1 to 64 characters';
const WORKER_RULE = 'payload.worker_id must be a string';
const GPU_RULE = 'payload.gpu_id must be an integer';

const note = (fields: object) => ({ type: 'NOTE', msg: '', ...fields });
const withPayload = (type: string, name: string) => (value: unknown) => ({
  type,
  msg: '',
  payload: { worker_id: 'w', [name]: value },
});

/** Bodies that break a rule, and the lines that say which. */
const REFUSED: readonly Refusal[] = [
  ...each('type is required', (type) => note({ type }), [undefined, null]),
  ...each('msg is required', (msg) => note({ msg }), [undefined, null]),
  ...each(TYPE_LENGTH, (type) => note({ type }), [5, '', 'T'.repeat(65)]),
  ...each(
    'type must be 1 to 64 characters of A-Z, 0-9 and _, starting with a letter',
    (type) => note({ type }),
    ['note', 'Note', '_A', '1A', 'A-B', 'A B', ' A', 'A\n', 'É', 'started', 'toString'],
  ),
  ...each('msg must be a string or an integer', (msg) => note({ msg }), [1.5, true, false, [], {}, -0.5]),
  ...each('payload must be an object', (payload) => note({ payload }), [[], 'x', 5, true]),
  ...each(
    (name) => `${name} is not a known field`,
    (name) => note({ [name]: 'x' }),
    ['t', 'state'],
  ),
  ...each('msg must be an integer from 0 to 100', (msg) => ({ type: 'PROGRESS', msg }), [
    -1,
    101,
    2 ** 53 - 1,
    '',
    '50',
  ]),
  ...each(WORKER_RULE, (payload) => ({ type: 'STARTED', msg: '', payload }), [undefined, null]),
  ...each(WORKER_RULE, withPayload('STARTED', 'worker_id'), [undefined, null, 5, true, {}, ['w']]),
  ...each(GPU_RULE, withPayload('STARTED', 'gpu_id'), ['0', 0.5, true, [], 2 ** 31]),
  [{ type: 'STARTED', msg: '', payload: { gpu_id: 'x' } }, [WORKER_RULE, GPU_RULE]],
  ...each('payload.outputs must be an object', withPayload('COMPLETED', 'outputs'), [[], 'x', 5, false]),
  ...each('payload.error_message must be a string', withPayload('FAILED', 'error_message'), [
    5,
    {},
    [],
    true,
  ]),
  ...each('payload.force must be a boolean', withPayload('RETRIED', 'force'), ['true', 1, {}, []]),
  ...each(
    'type RECLAIMED is recorded by the service only',
    (payload) => ({ type: 'RECLAIMED', msg: '', payload }),
    [undefined, { worker_id: 'w', last_heartbeat_at: 'now' }],
  ),
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

  test('stores no field of STARTED, COMPLETED or FAILED that is inherited, not given', async () => {
    const { id } = await steps.assigned();
    const body = '{"type":"COMPLETED","msg":"","payload":{"__proto__":{"outputs":{"bad":1}}}}';
    const run = bodyOf(await service.send('POST', `/runs/${id}/events`, { body }), 'OpRun');
    assert.deepEqual(run.outputs, {});
  });
});
