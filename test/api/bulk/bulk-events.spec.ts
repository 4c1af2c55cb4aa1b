import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { since } from '../../support/monitoring/metrics.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const DONE = { status: 204 };
const AGAIN = { status: 204, replayed: true };
const OTHER_BODY = 'Idempotency-Key was used with another request body';
const LENGTH_RULE = 'events must be a list of 1 to 100 items';
const UNKNOWN_RUN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

/** The two events of a run that goes well. */
const story = (run_id: string, worker = 'w'): object[] => [
  { run_id, attempt: 1, type: 'STARTED', msg: '', payload: { worker_id: worker } },
  { run_id, attempt: 1, type: 'COMPLETED', msg: 'done', payload: { outputs: { of: run_id } } },
];

/** An event that is only recorded. */
const note = (run_id: string, msg: string): object => ({ run_id, type: 'NOTE', msg });

describe('reporting many events at once', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const twin = useTestApp(() => ({ database: service.database, env: { SERVICE_WORKER_TIMEOUT: '600' } }));
  const steps = new RunSteps(service.send);
  const bulk = new BulkSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat('w');
    await steps.heartbeat('v');
  });

  let standing = 0;
  /** New runs in the hands of the worker. */
  const assigned = async (count: number, worker = 'w'): Promise<string[]> => {
    // Before whatever other tests have left in the queue.
    const ids = await bulk.ids(count, { priority: (standing += 1) });
    const got = await bulk.claim(worker, count);
    assert.deepEqual(
      got.map((op) => op.id),
      ids,
    );
    return ids;
  };

  const messagesOf = async (id: string): Promise<unknown[]> => (await steps.poll(id)).map(({ msg }) => msg);

  const typesOf = async (id: string): Promise<string[]> => (await steps.poll(id)).map(({ type }) => type);

  test('carries 50 runs from STARTED to COMPLETED, in one commit', async () => {
    const ids = await assigned(50);
    const earlier = await bulk.groups();
    const results = await bulk.report(
      'w',
      ids.flatMap((id) => story(id)),
    );
    assert.deepEqual(
      results,
      Array.from({ length: 100 }, () => DONE),
    );
    assert.deepEqual(since(earlier, await bulk.groups()), { count: 1, sum: 100 });
    for (const id of ids) {
      const run = await steps.get(id);
      assert.deepEqual(
        [run.state, run.outputs, run.execution_summary.worker_id],
        ['COMPLETED', { of: id }, 'w'],
      );
      assert.deepEqual(await typesOf(id), ['STARTED', 'COMPLETED']);
    }
  });

  test('keeps the order of the body for each run, and mirrors it to the feed', async () => {
    const topic = 'bulk order';
    const ids = await bulk.ids(3, { event_delivery: { topic } });
    const events = Array.from({ length: 99 }, (_, i) => ({ run_id: ids[(i * i) % 3], type: 'NOTE', msg: i }));
    const sent = events.map(({ run_id, msg }) => [run_id, msg]);
    assert.ok(
      (await bulk.report('w', events)).every(({ status }) => status === 409),
      'nobody has the runs',
    );
    assert.equal((await bulk.claim('w', 3)).length, 3);
    assert.ok((await bulk.report('w', events)).every(({ status }) => status === 204));
    for (const id of ids) {
      assert.deepEqual(
        (await steps.poll(id)).map(({ msg }) => [id, msg]),
        sent.filter(([runId]) => runId === id),
      );
    }
    const { body } = await service.send('GET', `/feed?topic=${encodeURIComponent(topic)}&limit=500`);
    assert.deepEqual(
      body.events.map((event: { run_id: string; msg: number }) => [event.run_id, event.msg]),
      sent,
    );
  });

  describe('a bad item', () => {
    // bulk-agreement.spec.ts compares the rules of events with those of one event.
    for (const [item, errors] of [
      [{}, ['run_id is required', 'type is required', 'msg is required']],
      [{ run_id: 7, type: 'A', msg: '' }, ['run_id must be a string of 1 to 128 characters']],
      [{ run_id: 'x'.repeat(129), type: 'A', msg: '' }, ['run_id must be a string of 1 to 128 characters']],
      ...[0, '1'].map(
        (attempt) =>
          [
            { run_id: UNKNOWN_RUN, attempt, type: 'A', msg: '' },
            ['attempt must be an integer from 1 to 1000'],
          ] as const,
      ),
      [{ run_id: UNKNOWN_RUN, type: 'A', msg: '', worker_id: 'w' }, ['worker_id is not a known field']],
      [{ run_id: UNKNOWN_RUN, type: 'STARTED', msg: '' }, ['payload.worker_id must be a string']],
      [null, ['the body must be a JSON object']],
    ] as const) {
      test(`${JSON.stringify(item).slice(0, 100)} is refused before the run is looked for, and harms no other`, async () => {
        const [id = ''] = await assigned(1);
        assert.deepEqual(await bulk.report('w', [note(id, ''), item, note(id, '')]), [
          DONE,
          { status: 400, error: { detail: 'Request validation failed', errors } },
          DONE,
        ]);
        assert.deepEqual(await typesOf(id), ['NOTE', 'NOTE']);
      });
    }
  });

  describe('is refused as a whole, and records nothing,', () => {
    for (const [title, body, errors] of [
      ['without events', {}, ['events is required']],
      ['with no event', { events: [] }, [LENGTH_RULE]],
      ['with 101 events', { events: Array.from({ length: 101 }, () => ({})) }, [LENGTH_RULE]],
      ['with another field', { events: [{}], worker_id: 'w' }, ['worker_id is not a known field']],
    ] as const) {
      test(title, async () => {
        assertInvalid(await service.send('POST', '/workers/w/events', { body }), errors);
      });
    }

    test('by a worker whose id is none', async () => {
      const [id = ''] = await assigned(1);
      const answer = await bulk.postEvents('w'.repeat(129), [{ run_id: id, type: 'NOTE', msg: '' }]);
      assertInvalid(answer, ['worker_id must be a worker id']);
      assert.deepEqual(await typesOf(id), []);
    });
  });

  test('is open to clients and workers, and to a worker id with a slash', async () => {
    await steps.heartbeat('a/b');
    const [id = ''] = await assigned(1, 'a/b');
    for (const key of [KEYS.client, KEYS.worker]) {
      const body = { events: [{ run_id: id, type: 'NOTE', msg: '' }] };
      const answer = await service.send('POST', '/workers/a%2Fb/events', { body, key });
      assert.deepEqual(answer.body, { results: [DONE] });
    }
    assert.deepEqual(await typesOf(id), ['NOTE', 'NOTE']);
  });

  describe('with an Idempotency-Key', () => {
    test('sent again records nothing twice, in any process, not even on a run that is locked', async () => {
      const ids = await assigned(2);
      const events = [...ids.flatMap((id) => story(id)), { run_id: UNKNOWN_RUN, type: 'NOTE', msg: '' }];
      const first = await bulk.report('w', events, { key: 'story' });
      assert.deepEqual(
        first.map(({ status }) => status),
        [204, 204, 204, 204, 404],
      );
      const timelines = await Promise.all(ids.map((id) => steps.poll(id)));
      for (const side of [bulk, new BulkSteps(twin.send)]) {
        const again = await side.report('w', events, { key: 'story' });
        assert.deepEqual(again, [AGAIN, AGAIN, AGAIN, AGAIN, first[4]]);
      }
      assert.deepEqual(await Promise.all(ids.map((id) => steps.poll(id))), timelines);
    });

    test('compares each item by its own content and by its run, and carries out what was not', async () => {
      const [one = '', two = ''] = await assigned(2);
      const first = [note(one, 'a'), note(one, 'b'), note(UNKNOWN_RUN, 'c'), note(one, 'd')];
      await bulk.report('w', first, { key: 'parts' });
      const again = [note(one, 'A'), note(two, 'b'), note(two, 'c'), note(one, 'd'), note(two, 'e')];
      const results = await bulk.report('w', again, { key: 'parts' });
      const mismatch = { status: 409, error: { detail: OTHER_BODY } };
      assert.deepEqual(results, [mismatch, mismatch, DONE, AGAIN, DONE]);
      assert.deepEqual(await messagesOf(one), ['a', 'b', 'd']);
      assert.deepEqual(await messagesOf(two), ['c', 'e']);
    });

    test('belongs to the worker of the path', async () => {
      const [mine = ''] = await assigned(1);
      const [other = ''] = await assigned(1, 'v');
      await bulk.report('w', [{ run_id: mine, type: 'NOTE', msg: '' }], { key: 'of a worker' });
      const events = [{ run_id: other, type: 'NOTE', msg: '' }];
      assert.deepEqual(await bulk.report('v', events, { key: 'of a worker' }), [DONE]);
    });
  });
});
