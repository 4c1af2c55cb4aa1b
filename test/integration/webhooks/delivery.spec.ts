import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { RunEvents } from '../../../src/runs/run-events.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { atDepth } from '../../support/depth.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { LOCAL_RECEIVERS, startReceiver, type Receiver } from '../../support/webhooks/receiver.js';
import { letWebhooksWait, received, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

const MINUTE_S = 60;
const DAY_S = 86_400;

describe('the delivery of messages', () => {
  const database = useTestDatabase();
  let service: TestApp;
  let receiver: Receiver;
  let runs: RunSteps;
  let webhooks: WebhookSteps;

  beforeEach(async () => {
    await execute(database.dataSource, 'truncate webhooks, webhook_deliveries');
    service = await startTestApp({ database, env: { ...LOCAL_RECEIVERS, SERVICE_RUN_RETENTION_DAYS: '3' } });
    receiver = await startReceiver();
    runs = new RunSteps(service.send);
    webhooks = new WebhookSteps(service.send);
  });
  afterEach(async () => {
    await service.close();
    await receiver.close();
  });

  const cancel = async (body: object = {}): Promise<string> => {
    const { id } = await runs.create({ ...body });
    await service.send('POST', `/runs/${id}/cancel`);
    return id;
  };
  /** Events of runs that ended, as many as there may be in a day, written at once. */
  const addEvents = (count: number): Promise<number> =>
    execute(
      database.dataSource,
      `with ended as (
         insert into runs (
           id, state, outcome, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims, max_attempts,
           image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, finished_at, created_at, updated_at, size
         )
         select gen_random_uuid(), 'CANCELLED', 'CANCELLED', 0, 0, 1, gen_random_uuid(), 0, 1, 0, 0, 1,
                'image', '{}', '{}', 0, 0, 0, now(), now(), now(), now(), 4
           from generate_series(1, $1::integer)
      returning id
       )
       insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
       select id, 0, 1, 'CANCELLED', 'CANCELLED', now(), '""', '{}', 4 from ended`,
      [count],
    );
  const wait = (seconds: number) => letWebhooksWait(database.dataSource, seconds);

  test('a message that fails is parked and tried again, and those of other runs go on', async () => {
    const { id } = await webhooks.create({ url: receiver.url });
    const bad = await cancel();
    await received(receiver, 1);
    receiver.reply = ({ body }) => ({ status: body.data.run_id === bad ? 500 : 204, body: 'no' });
    assert.equal((await webhooks.post(id, 'replay', { from: '1h' })).status, 202);
    const good = await cancel();
    const [parked] = await until(
      () => webhooks.deliveries(id, '?state=parked'),
      (all) => all.length === 1,
    );
    assert.deepEqual([parked.subject, parked.tries, parked.status, parked.detail], [bad, 1, 500, 'no']);
    await until(
      () => webhooks.deliveries(id, '?state=delivered'),
      (all) => all.some(({ subject }) => subject === good),
    );
    const expected = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
    for (const [n, pauseS] of expected.entries()) {
      const [waiting] = await until(
        () => webhooks.deliveries(id, '?state=parked'),
        (all) => all[0]?.tries === n + 1,
      );
      const pause = (Date.parse(waiting.next_try_at) - Date.parse(waiting.tried_at)) / 1000;
      assert.ok(pause >= pauseS * 0.9 - 0.1 && pause <= pauseS * 1.1 + 0.1, `${pause} s after try ${n + 1}`);
      // The endpoint takes other messages, so that it does not count as failing.
      await execute(database.dataSource, 'update webhooks set failures = 0, failing_since = null');
      await wait(pauseS * 1.1 + 1);
    }
    const [failed] = await until(
      () => webhooks.deliveries(id, '?state=failed'),
      (all) => all.length === 1,
    );
    assert.equal(failed.tries, 10);
    assert.equal(
      new Set(receiver.received.filter(({ body }) => body.data.run_id === bad).map((one) => one.id)).size,
      1,
    );
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_webhook_deliveries_total\{outcome="given_up"\} 1$/m);
  });

  test('an endpoint may lengthen the pause by Retry-After', async () => {
    const { id } = await webhooks.create({ url: receiver.url });
    receiver.reply = () => ({ status: 503, headers: { 'retry-after': '1000' } });
    await cancel();
    const [parked] = await until(
      () => webhooks.deliveries(id, '?state=parked'),
      (all) => all.length === 1,
    );
    assert.equal(Date.parse(parked.next_try_at) - Date.parse(parked.tried_at), 1_000_000);
  });

  test('later events of a run wait behind one that failed, and follow it in order', async () => {
    const { id } = await webhooks.create({
      url: receiver.url,
      events: ['run.created', 'run.started', 'run.completed'],
    });
    receiver.reply = () => ({ status: 500 });
    const run = await runs.running();
    await runs.event(run.id, 'COMPLETED', {});
    await webhooks.untilIs(id, ({ parked }) => parked === 3);
    receiver.reply = () => ({ status: 200 });
    const before = receiver.received.length;
    await wait(10);
    const messages = await received(receiver, before + 3);
    assert.deepEqual(
      messages.slice(-3).map(({ body }) => body.type),
      ['run.created', 'run.started', 'run.completed'],
    );
    await webhooks.untilIs(id, ({ parked }) => parked === 0);
  });

  test('an endpoint that is dead for a day has few parked messages, gets one in 30 seconds, and everything when it returns', async () => {
    const { id } = await webhooks.create({ url: receiver.url });
    receiver.reply = () => ({ status: 500 });
    const count = atDepth({ fast: 2_000, all: 20_000, soak: 1_000_000 });
    for (let left = count; left > 0; left -= 20_000) await addEvents(Math.min(left, 20_000));
    await cancel();
    await webhooks.untilIs(id, ({ failures }) => failures >= 10);
    const probed = receiver.received.length;
    for (let n = 0; n < 3; n += 1) {
      const { failures } = await webhooks.get(id);
      await wait(31);
      await webhooks.untilIs(id, (webhook) => webhook.failures === failures + 1);
    }
    assert.equal(receiver.received.length, probed + 3);
    await wait(DAY_S);
    const { parked, enabled } = await webhooks.untilIs(id, ({ failures }) => failures >= 14);
    assert.ok(parked <= 1000, `${parked} messages are parked`);
    assert.equal(enabled, true);
    const told = new Set<string>();
    receiver.reply = ({ body }) => {
      told.add(body.data.run_id);
      receiver.received.length = 0;
      return { status: 204 };
    };
    await wait(31);
    while (told.size <= count) {
      const next = Math.min(count + 1, told.size + 1_000);
      await until(
        () => Promise.resolve(told.size),
        (size) => size >= next,
      );
    }
    await webhooks.untilIs(id, (webhook) => webhook.parked === 0);
    assert.equal(told.size, count + 1);
    await until(
      () => service.send('GET', '/metrics'),
      ({ text }) => /^longshore_webhook_lag_seconds 0$/m.test(text),
    );
  }, 10_800_000);

  test('with 1,000 parked messages no further events are read until the endpoint takes one again', async () => {
    const { id } = await webhooks.create({ url: receiver.url });
    await execute(
      database.dataSource,
      `insert into webhook_deliveries (webhook_id, message_id, type, subject, body, created_at, state, tries, due_at)
       select $1::uuid, 'm' || n, 'run.failed', n, '{}', now(), 'parked', 5, now() + interval '1 day'
         from generate_series(1, 1000) as n`,
      [id],
    );
    receiver.reply = () => ({ status: 500 });
    await wait(31);
    const run = await cancel();
    await webhooks.untilIs(id, ({ failures }) => failures === 1);
    await wait(31);
    const { parked } = await webhooks.untilIs(id, ({ failures }) => failures === 2);
    assert.equal(parked, 1000);
    assert.deepEqual(new Set(receiver.received.map((one) => one.id)), new Set(['m1']));
    receiver.reply = () => ({ status: 204 });
    receiver.received.length = 0;
    await wait(31);
    await until(
      () => Promise.resolve(receiver.received),
      (messages) => messages.some(({ body }) => body.data?.run_id === run),
    );
    assert.equal(new Set(receiver.received.map((one) => one.id)).size, 1_001);
    await webhooks.untilIs(id, (webhook) => webhook.parked === 0);
  });

  test('410 disables a webhook, which tells those that subscribe it, and goes on where it stopped when it is enabled', async () => {
    const other = await startReceiver();
    const { id } = await webhooks.create({ url: receiver.url });
    await webhooks.create({ url: other.url, events: ['webhook.disabled'], where: { topic: ['none'] } });
    receiver.reply = () => ({ status: 410 });
    const run = await cancel();
    const disabled = await webhooks.untilIs(id, ({ enabled }) => !enabled);
    assert.equal(disabled.disabled_reason, 'The endpoint answered 410 Gone');
    const [told] = await received(other, 1);
    assert.deepEqual(
      [told?.body.type, told?.body.data],
      ['webhook.disabled', { webhook_id: id, url: receiver.url, reason: disabled.disabled_reason }],
    );
    await other.close();
    const [entry] = (await service.send('GET', '/audit?limit=1')).body;
    assert.deepEqual([entry.action, entry.subject, entry.key_name], ['webhook.disable', id, 'longshore']);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_webhooks_disabled_total 1$/m);
    receiver.reply = () => ({ status: 204 });
    receiver.received.length = 0;
    const later = await cancel();
    assert.equal((await webhooks.update(id, { enabled: true })).disabled_reason, null);
    const messages = await received(receiver, 2);
    assert.deepEqual(
      messages.map(({ body }) => body.data.run_id),
      [run, later],
    );
  });

  test('5 days without a success disable a webhook', async () => {
    const { id } = await webhooks.create({ url: receiver.url });
    receiver.reply = () => ({ status: 500 });
    await cancel();
    await webhooks.untilIs(id, ({ failures }) => failures === 1);
    await wait(4.9 * DAY_S);
    await webhooks.untilIs(id, ({ failures }) => failures === 2);
    assert.equal((await webhooks.get(id)).enabled, true);
    await wait(0.2 * DAY_S);
    const disabled = await webhooks.untilIs(id, ({ enabled }) => !enabled);
    assert.equal(disabled.disabled_reason, 'The endpoint took nothing for 5 days');
  });

  test('two processes send each message once, and another one takes over when one has died in its turn', async () => {
    const second = await startTestApp({ database, env: LOCAL_RECEIVERS });
    const { id } = await webhooks.create({ url: receiver.url });
    await addEvents(300);
    const ids = await Promise.all(Array.from({ length: 20 }, () => cancel()));
    const messages = await received(receiver, 320);
    assert.equal(new Set(messages.map((one) => one.id)).size, messages.length);
    await second.close();
    await execute(
      database.dataSource,
      `update webhooks set lease = gen_random_uuid(), lease_until = clock_timestamp() + interval '1 hour'`,
    );
    const waiting = await cancel();
    await wait(61 * MINUTE_S);
    const all = await received(receiver, 321);
    assert.equal(all.at(-1)?.body.data.run_id, waiting);
    assert.ok(!ids.includes(waiting));
    assert.equal((await webhooks.get(id)).parked, 0);
  });

  test('events that retention may have removed before they were read are reported as a gap', async () => {
    const { id } = await webhooks.create({ url: receiver.url, enabled: false });
    assert.equal((await webhooks.get(id)).gap, null);
    await execute(
      database.dataSource,
      `update webhooks set position = jsonb_set(position::jsonb, '{readAt}', '"2026-01-01T00:00:00.000Z"')::json`,
    );
    await cancel();
    await webhooks.update(id, { enabled: true });
    const { gap, read_until: readUntil } = await webhooks.untilIs(id, (webhook) => webhook.gap !== null);
    assert.equal(gap.from, '2026-01-01T00:00:00.000Z');
    assert.ok(gap.until > gap.from && gap.until < readUntil);
  });

  test('a replay begins with the first event of its time, however many were before', async () => {
    const { id } = await webhooks.create({ url: receiver.url, enabled: false });
    await addEvents(100);
    await execute(database.dataSource, `update events set t = t - interval '1 day'`);
    const expected = await cancel();
    assert.equal((await webhooks.post(id, 'replay', { from: '2h' })).status, 202);
    await webhooks.update(id, { enabled: true });
    const messages = await received(receiver, 1);
    await webhooks.untilIs(id, ({ read_until: readUntil }) => readUntil > messages[0]?.body.timestamp);
    assert.deepEqual(
      receiver.received.map(({ body }) => body.data.run_id),
      [expected],
    );
    const events = service.app.get(RunEvents, { strict: false });
    const page = await events.read(await events.cursorAt(new Date(Date.now() - 2 * 3_600_000)), 500);
    assert.ok(page.events.length <= 2, `${page.events.length} events are read for one`);
  });
});
