import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

describe('section 4: endpoints of runs', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  describe('as specified', () => {
    test('POST /runs answers 201 with the run, made without a definition and with an id of its own', async () => {
      const run = bodyOf(await service.send('POST', '/runs', { body: { image: 'i' } }), 'OpRun', 201);
      assert.equal(run.op_definition, null);
      assert.deepEqual(await steps.get(run.id), run);
    });

    test('POST /runs needs an image and nothing else', async () => {
      assertInvalid(await service.send('POST', '/runs', { body: { priority: 1 } }), ['image is required']);
      assert.equal((await service.send('POST', '/runs', { body: { image: 'i' } })).status, 201);
    });

    test('POST /runs refuses invalid input with 400', async () => {
      for (const wrong of [
        { image: 5 },
        { priority: 'x' },
        { inputs: [] },
        { retry_policy: { max_attempts: 0 } },
      ]) {
        const answer = await service.send('POST', '/runs', { body: { image: 'i', ...wrong } });
        assert.equal(answer.status, 400);
      }
    });

    test('GET /runs/{id} answers 200 with the run', async () => {
      const run = await steps.create({ inputs: { a: 1 } });
      assert.deepEqual(bodyOf(await service.send('GET', `/runs/${run.id}`), 'OpRun'), run);
    });

    test('PATCH takes any of its fields alone, and none at all', async () => {
      const { id } = await steps.create();
      for (const body of [{ state: 'RUNNING' }, { outputs: { a: 1 } }, { priority: 3 }, {}]) {
        const run = bodyOf(await service.send('PATCH', `/runs/${id}`, { body }), 'OpRun');
        assert.deepEqual({ ...run, ...body }, run);
      }
    });

    test('PATCH refuses a state that is none', async () => {
      const { id } = await steps.create();
      assertError(
        await service.send('PATCH', `/runs/${id}`, { body: { state: 'DONE' } }),
        400,
        `Invalid state 'DONE'`,
        ['a state is one of PENDING, ASSIGNED, RUNNING, CANCELLED, COMPLETED, FAILED'],
      );
    });

    test('PATCH of outputs replaces all of them, past the timeline, and is a change', async () => {
      const run = await steps.create({ outputs: { a: 1, b: 2 } });
      const answer = await service.send('PATCH', `/runs/${run.id}`, { body: { outputs: { c: 3 } } });
      const patched = bodyOf(answer, 'OpRun');
      assert.deepEqual([patched.outputs, patched.events], [{ c: 3 }, []]);
      assert.ok(patched.updatedAt >= run.updatedAt);
    });

    test('PATCH of the priority changes when the run is claimed', async () => {
      await steps.emptyQueue();
      const first = await steps.create();
      const second = await steps.create();
      await service.send('PATCH', `/runs/${second.id}`, { body: { priority: 1 } });
      assert.deepEqual([(await steps.claim())[0].id, (await steps.claim())[0].id], [second.id, first.id]);
    });

    test('POST retry answers 200 with the run in its new attempt', async () => {
      const { id } = await steps.create();
      assert.equal(bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun').current_attempt, 2);
    });

    test('POST cancel answers 200 and records CANCELLED by the user, without a payload', async () => {
      const { id } = await steps.create();
      const run = bodyOf(await service.send('POST', `/runs/${id}/cancel`), 'OpRun');
      const [{ type, msg, payload }] = run.events;
      assert.deepEqual([run.state, type, msg, payload], ['CANCELLED', 'CANCELLED', 'Cancelled by user', {}]);
    });

    for (const state of ['CANCELLED', 'COMPLETED', 'FAILED']) {
      test(`POST cancel of a run that is ${state} is 400 and says so`, async () => {
        const { id } = await steps.inState(state);
        const answer = await service.send('POST', `/runs/${id}/cancel`);
        assertError(answer, 400, `Run is already in terminal state ${state}`);
      });
    }

    test('GET events answers all of them without `after`, and those with a greater index with it', async () => {
      const { id } = await steps.create();
      for (let i = 0; i < 4; i += 1) await steps.note(id);
      for (const [after_, indexes] of [
        [undefined, [0, 1, 2, 3]],
        [0, [1, 2, 3]],
        [2, [3]],
        [3, []],
        [99, []],
      ] as const) {
        assert.deepEqual(
          (await steps.poll(id, after_)).map((entry) => entry.id),
          indexes,
        );
      }
    });

    test('GET attempts answers 200 with the list', async () => {
      const { id } = await steps.create();
      await service.send('POST', `/runs/${id}/retry`);
      const attempts = bodyOf(await service.send('GET', `/runs/${id}/attempts`), 'OpAttempts');
      assert.deepEqual(
        attempts.map(({ op_run_id: runId, attempt }: { op_run_id: string; attempt: number }) => [
          runId,
          attempt,
        ]),
        [
          [id, 1],
          [id, 2],
        ],
      );
    });

    test('POST events answers 200 with the run, whose current attempt has the event', async () => {
      const { id } = await steps.create();
      await service.send('POST', `/runs/${id}/retry`);
      const run = bodyOf(await steps.report(id, { type: 'NOTE', msg: 'm', payload: { a: 1 } }), 'OpRun');
      const [, attempt] = await steps.attempts(id);
      assert.deepEqual(attempt.events, run.events.slice(1));
      assert.deepEqual([attempt.events[0].type, attempt.events[0].payload], ['NOTE', { a: 1 }]);
    });

    test('POST events needs a type and a message that is a text or an integer', async () => {
      const { id } = await steps.create();
      assertInvalid(await steps.report(id, {}), ['type is required', 'msg is required']);
      assertInvalid(await steps.report(id, { type: 'NOTE', msg: 1.5 }), [
        'msg must be a string or an integer',
      ]);
      for (const msg of ['text', 5])
        assert.equal((await steps.report(id, { type: 'NOTE', msg })).status, 200);
    });

    test('every route with the id of a run is 404 when there is none', async () => {
      for (const [method, path, body] of [
        ['GET', ''],
        ['PATCH', '', {}],
        ['POST', '/retry'],
        ['POST', '/cancel'],
        ['GET', '/events'],
        ['GET', '/attempts'],
        ['POST', '/events', { type: 'NOTE', msg: '' }],
      ] as const) {
        const answer = await service.send(method, `/runs/${NOBODY}${path}`, { body });
        assertError(answer, 404, `OpRun '${NOBODY}' not found`);
      }
    });
  });

  describe('as settled', () => {
    test('POST /runs also takes a template of the outputs, and a gpu_id that it ignores', async () => {
      const run = await steps.create({ outputs: { a: 1 }, constraints: { gpu_id: 4 } });
      assert.deepEqual([run.outputs, run.constraints.gpu_id], [{ a: 1 }, null]);
    });

    test('GET /runs/{id} leaves the events out when it is asked to', async () => {
      const { id } = await steps.create();
      const run = await steps.event(id, 'NOTE');
      const bare = bodyOf(await service.send('GET', `/runs/${id}?include_events=false`), 'OpRun');
      assert.deepEqual(bare, { ...run, events: [] });
      const whole = bodyOf(await service.send('GET', `/runs/${id}?include_events=true`), 'OpRun');
      assert.deepEqual(whole, run);
      assertInvalid(await service.send('GET', `/runs/${id}?include_events=no`), [
        'include_events must be true or false',
      ]);
    });

    test('attempts are listed oldest first, and `after` may be -1', async () => {
      const { id } = await steps.create();
      await service.send('POST', `/runs/${id}/retry`);
      assert.deepEqual(
        (await steps.attempts(id)).map(({ attempt }) => attempt),
        [1, 2],
      );
      assert.deepEqual(await steps.poll(id, -1), await steps.poll(id));
      assert.equal((await service.send('GET', `/runs/${id}/events?after=-2`)).status, 400);
    });

    test('an event that asks for little is answered with 204 and nothing', async () => {
      const { id } = await steps.create();
      const headers = { Prefer: 'return=minimal' };
      const body = { type: 'NOTE', msg: '' };
      const answer = await service.send('POST', `/runs/${id}/events`, { body, headers });
      assert.deepEqual([answer.status, answer.text], [204, '']);
      assert.equal((await steps.poll(id)).length, 1);
    });

    test('a reporter that is not the run’s, or speaks of another attempt, is refused', async () => {
      const { id } = await steps.running();
      const note = { type: 'NOTE', msg: '' };
      assertError(
        await steps.report(id, note, { worker: 'x' }),
        409,
        `Run '${id}' is not assigned to worker 'x'`,
      );
      assertError(await steps.report(id, note, { attempt: 2 }), 409, `Run '${id}' attempt 2 is not current`);
      assert.equal((await steps.report(id, note, { worker: 'w', attempt: 1 })).status, 200);
    });

    test('a creation that is sent twice with one Idempotency-Key makes one run', async () => {
      const request = { body: { image: 'i' }, headers: { 'Idempotency-Key': 'one' } };
      const first = await service.send('POST', '/runs', request);
      const second = await service.send('POST', '/runs', request);
      assert.deepEqual(second.body, first.body);
      assert.deepEqual([second.status, second.headers.get('idempotency-replayed')], [201, 'true']);
      const other = await service.send('POST', '/runs', { ...request, body: { image: 'j' } });
      assert.equal(other.status, 409);
    });

    test('every PATCH leaves an entry in the audit log', async () => {
      const { id } = await steps.create();
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'FAILED', priority: 2 } });
      const { status, body } = await service.send('GET', '/audit?limit=1');
      assert.equal(status, 200);
      const [{ run_id: runId, before: was, after: is, key_name: key }] = body;
      assert.deepEqual(
        [runId, was, is, key],
        [
          id,
          { state: 'PENDING', priority: 0 },
          { state: 'FAILED', priority: 2 },
          settingsName('admin', KEYS.admin),
        ],
      );
    });
  });
});
