import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestRequest } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const MAX_BYTES = 4096;
const WORKER_HEADER = 'header X-Worker-Id must be a worker id';
const ATTEMPT_HEADER = 'header X-Run-Attempt must be an integer from 1 to 1000';

describe('a reporter that says who it is', () => {
  const service = useTestApp({ env: { SERVICE_MAX_BODY_BYTES: String(MAX_BYTES) } });
  const steps = new RunSteps(service.send);

  const note = { type: 'NOTE', msg: '' };

  test('is refused when the run is assigned to another worker, and nothing changes', async () => {
    const run = await steps.running();
    for (const type of ['NOTE', 'COMPLETED', 'FAILED', 'CANCELLED', 'RETRIED']) {
      const answer = await steps.report(run.id, { type, msg: '' }, { worker: 'other', attempt: 1 });
      assertError(answer, 409, `Run '${run.id}' is not assigned to worker 'other'`);
    }
    assert.deepEqual(await steps.get(run.id), run);
  });

  test('is refused for an attempt that is over or has not begun, and nothing changes', async () => {
    const { id } = await steps.running({ retry_policy: { max_attempts: 5 } });
    await steps.event(id, 'FAILED');
    await steps.claimUntil(id);
    const run = await steps.get(id);
    for (const attempt of [1, 3, 1000]) {
      const answer = await steps.report(id, { type: 'COMPLETED', msg: '' }, { worker: 'w', attempt });
      assertError(answer, 409, `Run '${id}' attempt ${attempt} is not current`);
    }
    assert.deepEqual(await steps.get(id), run);
    assert.equal((await steps.report(id, note, { worker: 'w', attempt: 2 })).status, 200);
  });

  test('is refused when its headers are none', async () => {
    const { id } = await steps.assigned();
    for (const [headers, errors] of [
      ...['', 'w'.repeat(129)].map((worker) => [{ 'X-Worker-Id': worker }, [WORKER_HEADER]] as const),
      ...['', '0', '-1', '1001', '1.0', '01', 'one'].map(
        (attempt) => [{ 'X-Run-Attempt': attempt }, [ATTEMPT_HEADER]] as const,
      ),
      [{ 'X-Worker-Id': '', 'X-Run-Attempt': '1e0' }, [WORKER_HEADER, ATTEMPT_HEADER]],
    ] as const)
      assertInvalid(await service.send('POST', `/runs/${id}/events`, { body: note, headers }), errors);
    assert.deepEqual(await steps.poll(id), []);
  });

  test('of several refusals gets 401, 403, 413, 415, 400, 404, 400 locked, 409 fence, 409 not in execution', async () => {
    const locked = (await steps.inState('CANCELLED')).id;
    const assigned = (await steps.assigned()).id;
    const pending = (await steps.create()).id;
    const completed = { type: 'COMPLETED', msg: '' };
    const huge = `{"type":"${' '.repeat(MAX_BYTES)}`;
    const fence = { 'X-Worker-Id': 'other', 'X-Run-Attempt': '9' };
    const foreign = { ...fence, 'Content-Type': 'text/plain' };

    /** Each request violates all that the ones after it violate, and one thing more. */
    const peeled: readonly (readonly [string, TestRequest, number, string, string[]?])[] = [
      [NOBODY, { key: null, headers: foreign, body: huge }, 401, 'Missing API key'],
      [NOBODY, { key: 'wrong', headers: foreign, body: huge }, 401, 'Invalid API key'],
      [NOBODY, { headers: foreign, body: huge }, 413, `Request body is larger than ${MAX_BYTES} bytes`],
      [NOBODY, { headers: foreign, body: '{"type":' }, 415, 'Request body must be application/json in UTF-8'],
      [NOBODY, { headers: fence, body: '{"type":' }, 400, 'Malformed JSON body: syntax error at character 9'],
      [
        NOBODY,
        { headers: fence, body: { type: 'STARTED' } },
        400,
        'Request validation failed',
        ['msg is required'],
      ],
      [
        NOBODY,
        { headers: fence, body: { type: 'STARTED', msg: '' } },
        400,
        'Request validation failed',
        ['payload.worker_id must be a string'],
      ],
      [NOBODY, { headers: fence, body: completed }, 404, `OpRun '${NOBODY}' not found`],
      [locked, { headers: fence, body: completed }, 400, 'Run is already in terminal state CANCELLED'],
      [
        assigned,
        { headers: fence, body: completed },
        409,
        `Run '${assigned}' is not assigned to worker 'other'`,
      ],
      [
        assigned,
        { headers: { ...fence, 'X-Worker-Id': 'w' }, body: completed },
        409,
        `Run '${assigned}' attempt 9 is not current`,
      ],
      [
        pending,
        { headers: fence, body: completed },
        409,
        `Run '${pending}' is not assigned to worker 'other'`,
      ],
      [
        pending,
        { headers: { 'X-Run-Attempt': '9' }, body: completed },
        409,
        `Run '${pending}' attempt 9 is not current`,
      ],
      [pending, { body: completed }, 409, `Run '${pending}' is not assigned to a worker`],
    ];
    for (const [id, request, status, detail, errors] of peeled) {
      assertError(await service.send('POST', `/runs/${id}/events`, request), status, detail, errors);
    }
  });
});
