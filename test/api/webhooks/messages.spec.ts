import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import {
  isSignedWith,
  LOCAL_RECEIVERS,
  startReceiver,
  type Receiver,
} from '../../support/webhooks/receiver.js';
import { received, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

describe('messages to webhooks', () => {
  const service = useTestApp({
    env: { ...LOCAL_RECEIVERS, SERVICE_PUBLIC_URL: 'https://longshore.example.com/' },
  });
  const runs = new RunSteps(service.send);
  const webhooks = new WebhookSteps(service.send);
  let receiver: Receiver;
  let paths = 0;

  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());

  /** A webhook with a path of its own. */
  const subscribe = async (body: Readonly<Record<string, unknown>> = {}) => {
    const path = `/hook/${(paths += 1)}`;
    const url = new URL(path, receiver.url).href;
    const { id, secret } = await webhooks.create({ url, ...body });
    return { id, secret, received: (count: number) => received(receiver, count, path) };
  };

  const complete = async (outputs: object) => {
    const run = await runs.running({
      event_delivery: { topic: 'outputs' },
      inputs: { secret: 'of the inputs' },
    });
    await runs.event(run.id, 'COMPLETED', { outputs });
  };
  const cancel = async (topic: string | null, labels: object) => {
    const { id } = await runs.create({ labels, ...(topic !== null && { event_delivery: { topic } }) });
    await service.send('POST', `/runs/${id}/cancel`);
    return id;
  };

  test('tell of the end of a run, are signed, and have all documented fields', async () => {
    const hook = await subscribe();
    const labels = { team: 'vision' };
    const run = await runs.running({ name: 'nightly', labels, event_delivery: { topic: 't' } });
    const payload = { error_message: 'x'.repeat(2000), cause: 'exit', exit_code: 3 };
    const ended = await runs.event(run.id, 'FAILED', payload);
    const [message] = await hook.received(1);
    assert.ok(message);
    assert.ok(isSignedWith(message, hook.secret));
    assert.equal(message.headers['content-type'], 'application/json');
    assert.equal(message.id, `run-failed_${run.id}_1`);
    assert.deepEqual(message.body, {
      type: 'run.failed',
      timestamp: ended.events.at(-1).t,
      data: {
        run_id: run.id,
        name: 'nightly',
        labels,
        attempt: 1,
        state: 'FAILED',
        cause: 'exit',
        exit_code: 3,
        error_message: `${'x'.repeat(1024)}...`,
        image: 'image',
        definition: null,
        version: null,
        topic: 't',
        schedule: null,
        group: null,
        duration_ms: ended.execution_summary.duration_ms,
        url: `https://longshore.example.com/ui/runs/${run.id}`,
      },
    });
    const [delivery] = await until(
      () => webhooks.deliveries(hook.id),
      (all) => all.length === 1,
    );
    const { message_id, type, subject, state, tries, status } = delivery;
    assert.deepEqual(
      { message_id, type, subject, state, tries, status },
      {
        message_id: message.id,
        type: 'run.failed',
        subject: run.id,
        state: 'delivered',
        tries: 1,
        status: 204,
      },
    );
  });

  test('are sent for each event that is subscribed, those of a run in the order of its timeline', async () => {
    const events = [
      'run.created',
      'run.started',
      'run.attempt_failed',
      'run.failed',
      'run.cancelled',
      'run.completed',
    ];
    const hook = await subscribe({ events, where: { topic: ['timeline'] } });
    const topic = { event_delivery: { topic: 'timeline' } };
    const retried = await runs.running({ ...topic, retry_policy: { max_attempts: 2 } });
    await runs.event(retried.id, 'STARTED', { worker_id: 'w' });
    await runs.event(retried.id, 'FAILED', { error_message: 'first' });
    await runs.claimUntil(retried.id);
    await runs.event(retried.id, 'STARTED', { worker_id: 'w' });
    await runs.event(retried.id, 'COMPLETED', { outputs: { words: 6 } });
    const cancelled = await runs.create(topic);
    await service.send('POST', `/runs/${cancelled.id}/cancel`);
    const messages = await hook.received(7);
    const of = (id: string) => messages.filter(({ body }) => body.data.run_id === id);
    assert.deepEqual(typesOf(of(retried.id)), [
      'run.created',
      'run.started',
      'run.attempt_failed',
      'run.started',
      'run.completed',
    ]);
    assert.deepEqual(typesOf(of(cancelled.id)), ['run.created', 'run.cancelled']);
    const [, , failed, , completed] = of(retried.id);
    assert.deepEqual(
      [failed?.body.data.attempt, failed?.body.data.state, failed?.body.data.error_message],
      [1, 'PENDING', 'first'],
    );
    assert.deepEqual([completed?.body.data.attempt, completed?.body.data.error_message], [2, null]);
    assert.ok(!('outputs' in (completed?.body.data ?? {})));
  });

  test('tell why the service has cancelled a run, and nothing of why a user has', async () => {
    const hook = await subscribe({ events: ['run.cancelled'], where: { topic: ['causes'] } });
    const topic = { event_delivery: { topic: 'causes' } };
    const limited = { ...topic, concurrency: { key: 'causes', limit: 1, on_limit: 'skip' } };
    const [{ id: first }, { id: skipped }] = [await runs.create(limited), await runs.create(limited)];
    const { id: child } = await runs.create({ ...topic, depends_on: [{ run: first }] });
    await service.send('POST', `/runs/${first}/cancel`);
    const told = (await hook.received(3)).map(({ body: { data } }) => `${data.run_id} ${data.cause}`);
    assert.deepEqual(
      new Set(told),
      new Set([`${first} null`, `${skipped} concurrency`, `${child} dependency`]),
    );
  });

  test('have outputs on request, up to 20 KiB, and never inputs', async () => {
    const hook = await subscribe({ include: ['outputs'], where: { topic: ['outputs'] } });
    await complete({ words: 6, exact: 1.5 });
    await complete({ text: 'x'.repeat(20_480) });
    const [small, large] = await hook.received(2);
    assert.deepEqual(small?.body.data.outputs, { words: 6, exact: 1.5 });
    assert.equal(large?.body.data.outputs, null);
    assert.ok(![small, large].some((one) => one?.text.includes('of the inputs')));
  });

  test('are sent for runs that have a value of each list of where', async () => {
    const hook = await subscribe({ where: { topic: ['a', 'b'], label: ['team=vision', 'urgent'] } });
    await cancel('a', { team: 'speech' });
    await cancel('c', { team: 'vision' });
    await cancel(null, { urgent: 'yes' });
    const expected = [await cancel('a', { team: 'vision' }), await cancel('b', { urgent: '' })];
    const messages = await hook.received(2);
    assert.deepEqual(
      messages.map(({ body }) => body.data.run_id),
      expected,
    );
  });

  test('tell of the recovery of a definition: a run completed after the one that ended before it failed', async () => {
    const image = { id: 'recovering', version: '1', image: 'image' };
    assert.equal((await service.send('POST', '/definitions', { body: image })).status, 201);
    const hook = await subscribe({
      events: ['run.recovered', 'run.failed'],
      where: { definition: ['recovering'] },
    });
    const end = async (type: string) => {
      const { body } = await service.send('POST', '/definitions/recovering/runs', {
        body: { priority: 2 ** 31 - 1 },
      });
      await runs.heartbeat();
      await runs.claimUntil(body.id);
      await runs.event(body.id, 'STARTED', { worker_id: 'w' });
      await runs.event(body.id, type, {});
      return body.id;
    };
    await end('COMPLETED');
    await end('COMPLETED');
    const failed = await end('FAILED');
    const recovered = await end('COMPLETED');
    await end('COMPLETED');
    const last = await end('FAILED');
    const messages = await hook.received(3);
    assert.deepEqual(
      messages.map(({ body }) => [body.type, body.data.run_id]),
      [
        ['run.failed', failed],
        ['run.recovered', recovered],
        ['run.failed', last],
      ],
    );
    assert.equal(messages[1]?.body.data.definition, 'recovering');
  });

  test('begin with what happens after the webhook was created, and a change of a run by PATCH sends none', async () => {
    const before = await runs.create();
    await service.send('POST', `/runs/${before.id}/cancel`);
    const hook = await subscribe();
    const patched = await runs.create();
    assert.equal(
      (await service.send('PATCH', `/runs/${patched.id}`, { body: { state: 'FAILED' } })).status,
      200,
    );
    const after = await runs.create();
    await service.send('POST', `/runs/${after.id}/cancel`);
    const messages = await hook.received(1);
    assert.deepEqual(
      messages.map(({ body }) => body.data.run_id),
      [after.id],
    );
  });

  test('are sent again by a replay, with the ids of before and beside what is new if it has an end', async () => {
    const hook = await subscribe({
      events: ['run.created', 'run.cancelled'],
      where: { topic: ['replayed'] },
    });
    await cancel('replayed', {});
    const first = (await hook.received(2)).map(({ id }) => id);
    const now = new Date().toISOString();
    const replay = await webhooks.post(hook.id, 'replay', { from: '1h', until: now });
    assert.equal(replay.status, 202, replay.text);
    assert.deepEqual(
      (await hook.received(4)).slice(2).map(({ id }) => id),
      first,
    );
    assert.equal((await webhooks.untilIs(hook.id, (webhook) => webhook.replay === null)).replay, null);
    assert.equal((await webhooks.post(hook.id, 'replay', { from: '1h' })).status, 202);
    const again = await hook.received(6);
    assert.deepEqual(
      again
        .slice(4)
        .map(({ id }) => id)
        .toSorted(),
      first.toSorted(),
    );
    await cancel('replayed', {});
    assert.equal(new Set((await hook.received(8)).map(({ id }) => id)).size, 4);
  });
});

function typesOf(messages: readonly { readonly body: { readonly type: string } }[]): string[] {
  return messages.map(({ body }) => body.type);
}
