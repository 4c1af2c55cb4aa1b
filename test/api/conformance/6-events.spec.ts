import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('section 6: events', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  describe('as specified', () => {
    test('STARTED names the worker and may name its GPU', async () => {
      const { id } = await steps.assigned();
      const run = await steps.event(id, 'STARTED', { worker_id: 'w', gpu_id: 2 }, 'go');
      assert.deepEqual(
        [run.events[0].msg, run.execution_summary.worker_id, run.execution_summary.gpu_id],
        ['go', 'w', 2],
      );
      const other = await steps.assigned();
      assert.equal((await steps.event(other.id, 'STARTED', { worker_id: 'w' })).state, 'RUNNING');
    });

    test('PROGRESS carries a whole number from 0 to 100 and sets the progress', async () => {
      const { id } = await steps.create();
      for (const progress of [0, 100, 55]) {
        assert.equal((await steps.event(id, 'PROGRESS', undefined, progress)).progress, progress);
      }
      for (const msg of [-1, 101, '50', 'half']) {
        assertInvalid(await steps.report(id, { type: 'PROGRESS', msg }), [
          'msg must be an integer from 0 to 100',
        ]);
      }
    });

    test('COMPLETED may carry outputs, which become the run’s', async () => {
      const { id } = await steps.running({ outputs: { template: 1 } });
      assert.deepEqual((await steps.event(id, 'COMPLETED', { outputs: { a: [1] } })).outputs, { a: [1] });
      const { id: silent } = await steps.running({ outputs: { template: 1 } });
      assert.deepEqual((await steps.event(silent, 'COMPLETED')).outputs, { template: 1 });
    });

    test('FAILED may carry an error message, and is retried while retries remain', async () => {
      const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
      const run = await steps.event(id, 'FAILED', { error_message: 'exit code 1' }, 'failed');
      assert.equal(run.state, 'PENDING');
      assert.equal((await steps.attempts(id))[0].execution_summary.error_message, 'exit code 1');
    });

    test('CANCELLED cancels the run', async () => {
      const { id } = await steps.create();
      assert.equal((await steps.event(id, 'CANCELLED', undefined, 'by hand')).state, 'CANCELLED');
    });

    test('the endpoints of cancel and retry record CANCELLED and RETRIED', async () => {
      const { id } = await steps.create();
      await service.send('POST', `/runs/${id}/retry`);
      await service.send('POST', `/runs/${id}/cancel`);
      assert.deepEqual(
        (await steps.poll(id)).map(({ type, payload }) => [type, payload]),
        [
          ['RETRIED', { force: true }],
          ['CANCELLED', {}],
        ],
      );
    });

    test('the timeline can be polled by the index of the last entry that was seen', async () => {
      const { id } = await steps.create();
      await steps.note(id);
      const [first] = await steps.poll(id);
      await steps.note(id);
      assert.deepEqual(
        (await steps.poll(id, first.id)).map((entry) => entry.id),
        [1],
      );
    });

    test('events come from clients and workers alike', async () => {
      const { id } = await steps.create();
      for (const key of ['test-client-key-of-the-tests', 'test-worker-key-of-the-tests']) {
        const answer = await service.send('POST', `/runs/${id}/events`, {
          body: { type: 'NOTE', msg: '' },
          key,
        });
        assert.equal(answer.status, 200);
      }
    });

    test('a topic’s feed mirrors the timeline, and the ends can be read from the list as well', async () => {
      const { id } = await steps.running({ event_delivery: { topic: 'mirror' } });
      const run = await steps.event(id, 'COMPLETED');
      const { body } = await service.send('GET', '/feed?topic=mirror');
      assert.deepEqual(
        body.events.map(({ type, t, msg, payload }: Json) => ({ type, t, msg, payload })),
        run.events.map(({ type, t, msg, payload }: Json) => ({ type, t, msg, payload })),
      );
      const list = await service.send('GET', '/runs?topic=mirror&state=COMPLETED');
      assert.deepEqual(list.body.data, [run]);
    });
  });

  describe('as settled', () => {
    test('types are capital letters, digits and _, 64 at most; unknown ones are only recorded', async () => {
      const { id } = await steps.create();
      for (const type of ['X', 'CHECKPOINT_1', 'T'.repeat(64)]) {
        const run = await steps.event(id, type, { free: [1] }, 'm');
        assert.deepEqual([run.state, run.events.at(-1).type], ['PENDING', type]);
      }
      for (const type of ['x', '1X', '_X', 'X-Y', 'T'.repeat(65), '']) {
        assert.equal((await steps.report(id, { type, msg: '' })).status, 400, type);
      }
    });

    test('RECLAIMED is the service’s own word', async () => {
      const { id } = await steps.running();
      assertInvalid(await steps.report(id, { type: 'RECLAIMED', msg: '' }), [
        'type RECLAIMED is recorded by the service only',
      ]);
    });

    test('a payload that is not asked for is kept as it is, and one that is left out is {}', async () => {
      const { id } = await steps.create();
      await steps.event(id, 'PROGRESS', { step: 1 }, 10);
      await steps.event(id, 'CANCELLED');
      assert.deepEqual(
        (await steps.poll(id)).map(({ payload }) => payload),
        [{ step: 1 }, {}],
      );
    });

    for (const [type, payload, error] of [
      ['STARTED', {}, 'payload.worker_id must be a string'],
      ['STARTED', { worker_id: 'w', gpu_id: 'x' }, 'payload.gpu_id must be an integer'],
      ['COMPLETED', { outputs: [] }, 'payload.outputs must be an object'],
      ['FAILED', { error_message: 1 }, 'payload.error_message must be a string'],
      ['RETRIED', { force: 'yes' }, 'payload.force must be a boolean'],
    ] as const) {
      test(`${type} with ${JSON.stringify(payload)} breaks the rule of its payload`, async () => {
        const run = await steps.assigned();
        assertInvalid(await steps.report(run.id, { type, msg: '', payload }), [error]);
        assert.deepEqual(await steps.get(run.id), run);
      });
    }

    test('a message may be empty', async () => {
      const { id } = await steps.create();
      assert.equal((await steps.event(id, 'NOTE', undefined, '')).events[0].msg, '');
    });
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
