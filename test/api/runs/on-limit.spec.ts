import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { checkKeys } from '../../support/runs/concurrency-keys.js';
import { RunSteps } from '../../support/runs/run-steps.js';

interface Ended {
  readonly state: string;
  readonly execution_summary: { readonly cause?: string; readonly cancel_reason?: string };
}

const endOf = ({ state, execution_summary: { cause, cancel_reason: reason } }: Ended) => [
  state,
  cause,
  reason,
];

describe('concurrency.on_limit', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let keys = 0;

  afterEach(() => checkKeys(service.dataSource));

  const bodyFor = (onLimit?: string, limit = 1, key = `k${(keys += 1)}`) => ({
    concurrency: { key, limit, ...(onLimit && { on_limit: onLimit }) },
  });
  const statesOf = (...ids: readonly string[]): Promise<string[]> =>
    Promise.all(ids.map(async (id) => (await steps.get(id)).state));
  const feed = async () => (await service.send('GET', '/feed?topic=limits')).body.events;
  const listed = async (query: string): Promise<string[]> =>
    (await service.send('GET', `/runs?${query}`)).body.data.map(({ id }: { id: string }) => id);

  test('lets runs wait unless it says otherwise', async () => {
    for (const onLimit of [undefined, 'queue']) {
      const body = bodyFor(onLimit);
      const { id: first } = await steps.create(body);
      const second = await steps.create(body);
      assert.deepEqual(second.concurrency, body.concurrency);
      assert.deepEqual(await statesOf(first, second.id), ['PENDING', 'PENDING']);
    }
  });

  test('skip ends the new run with the cause and how many there are, in the answer, the timeline, explain and the list', async () => {
    const body = bodyFor('skip', 2);
    const { key } = body.concurrency;
    await steps.create(body);
    await steps.create({ ...body, start_at: '1h' });
    const skipped = await steps.create(body);
    const reason = `Skipped: 2 runs with the concurrency key '${key}' had not ended, and its limit is 2`;
    assert.deepEqual(endOf(skipped), ['CANCELLED', 'concurrency', reason]);
    assert.deepEqual(
      skipped.events.map(({ type, msg, payload }: Record<string, unknown>) => ({ type, msg, payload })),
      [{ type: 'CANCELLED', msg: reason, payload: { cause: 'concurrency' } }],
    );
    assert.deepEqual(await steps.get(skipped.id), skipped);
    const { ended } = (await service.send('GET', `/runs/${skipped.id}/explain`)).body;
    assert.deepEqual([ended.event, ended.cause, ended.msg], ['CANCELLED', 'concurrency', reason]);
    assert.deepEqual(await listed(`cause=concurrency&concurrency_key=${key}`), [skipped.id]);
    assert.deepEqual(await listed(`cause=concurrency&state=FAILED`), []);
  });

  test('skip counts runs that wait for a time or a back-off, and those in execution, and none that has ended', async () => {
    const worker = 'limited';
    const body = {
      ...bodyFor('skip'),
      priority: 9,
      selector: [worker],
      retry_policy: { max_attempts: 2, backoff_s: 60 },
    };
    await steps.heartbeat(worker, { tags: [worker] });
    const { id } = await steps.create(body);
    const isSkipped = async () => (await steps.create(body)).state === 'CANCELLED';
    assert.deepEqual(
      (await steps.claim(worker)).map((op) => op.id),
      [id],
    );
    assert.ok(await isSkipped(), 'one is in execution');
    await steps.report(id, { type: 'FAILED', msg: '' }, { worker, attempt: 1 });
    assert.ok(await isSkipped(), 'it is in back-off');
    await service.send('POST', `/runs/${id}/cancel`);
    assert.ok(!(await isSkipped()));
  });

  test('cancel_oldest ends as many of the oldest runs as leave the limit, and their workers learn it', async () => {
    const worker = 'replaced';
    const body = { ...bodyFor(undefined, 3), priority: 9, selector: [worker] };
    await steps.heartbeat(worker, { tags: [worker] });
    const { id: oldest } = await steps.create(body);
    await steps.claim(worker);
    const { id: second } = await steps.create(body);
    const { id: third } = await steps.create({ ...body, start_at: '1h' });
    const run = await steps.create({
      ...body,
      concurrency: { ...body.concurrency, limit: 2, on_limit: 'cancel_oldest' },
    });
    assert.deepEqual(await statesOf(oldest, second, third, run.id), [
      'CANCELLED',
      'CANCELLED',
      'PENDING',
      'PENDING',
    ]);
    const reason = `Cancelled for the newer run ${run.id}: 3 runs with the concurrency key '${body.concurrency.key}' had not ended, and its limit is 2`;
    assert.deepEqual(endOf(await steps.get(oldest)), ['CANCELLED', 'concurrency', reason]);
    const named = {
      running_ops: [{ id: oldest, image: 'image', inputs: {}, constraints: {} }],
      tags: [worker],
    };
    const answer = await steps.sendHeartbeat(worker, named);
    assert.deepEqual(
      answer.body.lost_ops.map(({ id }: { id: string }) => id),
      [oldest],
    );
  });

  test('is decided once: a repeated request gets its run, and a retry of a skipped run executes it', async () => {
    const body = { image: 'image', ...bodyFor('skip') };
    const create = (key: string) =>
      service.send('POST', '/runs', { body, headers: { 'Idempotency-Key': key } });
    const first = (await create('first')).body;
    const skipped = (await create('second')).body;
    await service.send('POST', `/runs/${first.id}/cancel`);
    assert.deepEqual(
      [(await create('second')).body.id, await statesOf(skipped.id)],
      [skipped.id, ['CANCELLED']],
    );
    await service.send('POST', `/runs/${skipped.id}/retry`);
    const [attempt] = await steps.attempts(skipped.id);
    assert.equal(attempt.execution_summary.cause, 'concurrency');
    const again = await steps.get(skipped.id);
    assert.deepEqual([again.state, again.execution_summary.cause], ['PENDING', undefined]);
  });

  test('of the items of a batch, and of runs of a definition, is decided in order', async () => {
    const body = { image: 'image', ...bodyFor('skip') };
    const batch = await service.send('POST', '/runs/batch', { body: { runs: [body, body, body] } });
    assert.deepEqual(
      batch.body.results.map(({ run }: { run: Ended }) => run.state),
      ['PENDING', 'CANCELLED', 'CANCELLED'],
    );
    const definition = { id: 'limited', version: '1', image: 'image', ...bodyFor('cancel_oldest') };
    await service.send('POST', '/definitions', { body: definition });
    const made = [1, 2].map(() => service.send('POST', '/definitions/limited/runs', { body: {} }));
    const ids: string[] = (await Promise.all(made)).map((answer) => answer.body.id);
    assert.deepEqual((await statesOf(...ids)).toSorted(), ['CANCELLED', 'PENDING']);
    assert.deepEqual((await steps.get(ids[0] ?? '')).concurrency, definition.concurrency);
  });

  test('is in the feed of a topic and in the counts like any cancel', async () => {
    const body = {
      ...bodyFor('skip'),
      event_delivery: { topic: 'limits', attributes: { a: 'b' } },
      labels: { l: 'm' },
      name: 'n',
    };
    await steps.create(body);
    assert.deepEqual(await feed(), []);
    const { id } = await steps.create(body);
    const [entry] = await feed();
    assert.deepEqual(
      [entry.run_id, entry.type, entry.state, entry.payload, entry.attributes, entry.name, entry.labels],
      [id, 'CANCELLED', 'CANCELLED', { cause: 'concurrency' }, { a: 'b' }, 'n', { l: 'm' }],
    );
  });
});
