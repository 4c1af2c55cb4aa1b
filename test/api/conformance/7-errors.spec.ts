import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const MEDIA_TYPE = 'Request body must be application/json in UTF-8';

describe('section 7: errors', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  describe('as specified', () => {
    test('a run that is not there', async () => {
      assertError(await service.send('GET', `/runs/${NOBODY}`), 404, `OpRun '${NOBODY}' not found`);
    });

    const lists: readonly (readonly [title: string, query: string, detail: string, errors?: string[]])[] = [
      [
        'state and status that differ',
        'state=PENDING&status=FAILED',
        'state and status must match when both are provided',
      ],
      [
        'an unknown state',
        'state=Queued',
        "Invalid state 'Queued'",
        ['a state is one of PENDING, ASSIGNED, RUNNING, CANCELLED, COMPLETED, FAILED'],
      ],
      [
        'an unconvertible timestamp',
        'created[gte]=soon',
        'Invalid created timestamp',
        [
          'created[gte] must be UNIX seconds (1793491200), an ISO 8601 date and time with a zone (2026-11-01T00:00:00Z), or a date (2026-11-01, in UTC)',
        ],
      ],
      ['an unknown cursor', `starting_after=${NOBODY}`, 'The cursor is not the id of a run'],
      [
        'both cursors',
        `starting_after=${NOBODY}&ending_before=${NOBODY}`,
        'Only one of starting_after and ending_before may be given',
      ],
    ];
    for (const [title, query, detail, errors] of lists) {
      test(`a list with ${title}`, async () => {
        assertError(await service.send('GET', `/runs?${query}`), 400, detail, errors);
      });
    }

    for (const state of ['CANCELLED', 'COMPLETED', 'FAILED']) {
      test(`a cancel, and an event, of a run that is ${state}`, async () => {
        const { id } = await steps.inState(state);
        const detail = `Run is already in terminal state ${state}`;
        assertError(await service.send('POST', `/runs/${id}/cancel`), 400, detail);
        assertError(await steps.report(id, { type: 'COMPLETED', msg: '' }), 400, detail);
      });
    }

    test('an invalid event', async () => {
      const { id } = await steps.create();
      assert.equal((await steps.report(id, { type: 'lower', msg: '' })).status, 400);
    });

    test('an invalid update', async () => {
      const { id } = await steps.create();
      assertError(
        await service.send('PATCH', `/runs/${id}`, { body: { state: 'X' } }),
        400,
        `Invalid state 'X'`,
        ['a state is one of PENDING, ASSIGNED, RUNNING, CANCELLED, COMPLETED, FAILED'],
      );
      assert.equal((await service.send('PATCH', `/runs/${id}`, { body: { priority: 'x' } })).status, 400);
    });

    test('invalid input to a creation', async () => {
      assertInvalid(await service.send('POST', '/runs', { body: {} }), ['image is required']);
    });

    test('invalid heartbeat data', async () => {
      const answer = await service.send('POST', '/workers/heartbeat', { body: {} });
      assertInvalid(answer, ['worker_id is required', 'resources is required', 'tags is required']);
    });

    test('a report on a run that is terminal, or somebody else’s', async () => {
      const ended = await steps.inState('COMPLETED');
      const running = await steps.running();
      const body = { type: 'FAILED', msg: '' };
      assert.equal((await steps.report(ended.id, body, { worker: 'w' })).status, 400);
      assert.equal((await steps.report(running.id, body, { worker: 'x' })).status, 409);
    });
  });

  describe('as settled', () => {
    test('fields that do not fit are 400 with a line each that names the path', async () => {
      const body = { image: 5, constraints: { cpu: -1 }, event_delivery: {} };
      assertInvalid(await service.send('POST', '/runs', { body }), [
        'image must be an image reference without white space of 1 to 512 characters',
        'event_delivery.topic is required',
        'constraints.cpu must be an integer from 0 to 2147483647',
      ]);
    });

    for (const path of ['/nowhere', '/nowhere/', '/Runs', '/runs//', `/runs/${NOBODY}/nothing`]) {
      test(`the unknown route ${path}`, async () => {
        assertError(await service.send('GET', path), 404, 'Not found');
      });
    }

    for (const [method, path, others] of [
      ['DELETE', '/runs', 'GET, POST'],
      ['PUT', `/runs/${NOBODY}`, 'GET, PATCH'],
      ['PUT', `/runs/${NOBODY}/`, 'GET, PATCH'],
      ['PATCH', '/definitions', 'GET, POST'],
      ['POST', '/health', 'GET'],
    ] as const) {
      test(`${method} ${path}, which is a path but not with this method, is 404 and names the methods`, async () => {
        const answer = await service.send(method, path);
        assertError(answer, 404, `Not found: this path has only ${others}, not ${method}`);
      });
    }

    test('a slash at the end of a path counts as none', async () => {
      const { id } = bodyOf(await service.send('POST', '/runs/', { body: { image: 'i' } }), 'OpRun', 201);
      assert.equal(bodyOf(await service.send('GET', `/runs/${id}/?include_events=false`), 'OpRun').id, id);
      assert.equal((await service.send('GET', '/runs/?limit=1')).body.data.length, 1);
    });

    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=latin1',
    ]) {
      test(`a body of type ${type} is 415`, async () => {
        const answer = await service.send('POST', '/runs', {
          body: '{"image":"i"}',
          headers: { 'Content-Type': type },
        });
        assertError(answer, 415, MEDIA_TYPE);
      });
    }

    for (const [title, body] of [
      ['cut off', '{"image":'],
      ['with a key twice', '{"image":"i","image":"j"}'],
      ['that is no UTF-8', Buffer.from('{"image":"\xff"}', 'latin1')],
      ['nested too deeply', `{"image":"i","inputs":${'{"a":'.repeat(64)}1${'}'.repeat(64)}}`],
    ] as const) {
      test(`a body ${title} is 400`, async () => {
        const { status, body: answer } = await service.send('POST', '/runs', { body });
        assert.equal(status, 400);
        assert.match(answer.detail, /^Malformed JSON body: /);
      });
    }

    test('every error is JSON of detail and errors, without a trace of the inside', async () => {
      const answers = [
        await service.send('GET', '/runs', { key: null }),
        await service.send('GET', '/runs?limit=x'),
        await service.send('GET', `/runs/${NOBODY}`),
        await service.send('POST', '/runs', { body: '{' }),
        await service.send('POST', '/runs', { body: '', headers: { 'Content-Type': 'text/plain' } }),
      ];
      for (const { headers, body, text } of answers) {
        assert.match(headers.get('content-type') ?? '', /^application\/json\b/);
        assert.ok(Object.keys(body).every((key) => key === 'detail' || key === 'errors'));
        assert.doesNotMatch(text, /node_modules|\.js:|select |stack/);
      }
    });

    test('without its database the service answers 503, says when to come again, and does nothing by halves', async () => {
      const lost = await startTestApp();
      await Promise.all([lost.dataSource.destroy(), lost.app.get(JournalDataSource).dataSource.destroy()]);
      try {
        for (const [method, path, body] of [
          ['GET', '/runs'],
          ['POST', '/runs', { image: 'i' }],
          ['GET', `/runs/${NOBODY}`],
          ['POST', '/definitions', { id: 'd', version: '1', image: 'i' }],
        ] as const) {
          const answer = await lost.send(method, path, { body });
          assertError(answer, 503, 'The database is not available');
          assert.ok(Number(answer.headers.get('retry-after')) >= 1);
        }
      } finally {
        await lost.close();
      }
    });
  });
});
