import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { bodyOf, assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { KEYS, newSecretsKey, settingsName, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { openTestDatabase } from '../../support/test-database.js';
import {
  isSignedWith,
  LOCAL_RECEIVERS,
  startReceiver,
  type Receiver,
} from '../../support/webhooks/receiver.js';
import { letWebhooksWait, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

const UNKNOWN = '019a2b3c-2222-7000-8000-0c1d2e3f4a5b';

describe('webhooks', () => {
  const service = useTestApp({ env: LOCAL_RECEIVERS });
  const webhooks = new WebhookSteps(service.send);
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());

  const audited = async (id: string) =>
    (await service.send('GET', '/audit?limit=20')).body
      .filter((entry: { subject: string }) => entry.subject === id)
      .map(({ action, before, after, key_name: by }: Json) => ({ action, before, after, by }));

  test('are created with defaults, shown without the secret, changed, listed and deleted, each with an entry of the audit log', async () => {
    const { secret, ...created } = await webhooks.create({ url: receiver.url });
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual(created.events, ['run.completed', 'run.failed', 'run.cancelled']);
    assert.deepEqual(
      [created.enabled, created.where, created.include, created.description],
      [true, {}, [], null],
    );
    const { id } = created;
    const changed = await webhooks.update(id, {
      description: 'of the\nteam',
      events: ['run.recovered', 'run.failed'],
      where: { definition: ['d'], schedule: ['s'] },
      include: ['outputs'],
      enabled: false,
    });
    assert.deepEqual(changed.events, ['run.failed', 'run.recovered']);
    assert.deepEqual(changed.where, { definition: ['d'], schedule: ['s'] });
    const listed = bodyOf(await service.send('GET', '/webhooks'), 'Webhooks');
    assert.deepEqual(
      listed.find((one: Json) => one.id === id),
      await webhooks.get(id),
    );
    const { description } = await webhooks.update(id, { description: '', where: {}, events: null });
    assert.equal(description, null);
    assert.equal((await service.send('DELETE', `/webhooks/${id}`)).status, 204);
    assertError(await service.send('GET', `/webhooks/${id}`), 404, `Webhook '${id}' not found`);
    const entries = await audited(id);
    assert.deepEqual(
      entries.map(({ action }: Json) => action),
      ['webhook.delete', 'webhook.update', 'webhook.update', 'webhook.create'],
    );
    assert.deepEqual(entries.at(-1), {
      action: 'webhook.create',
      before: {},
      after: {
        url: receiver.url,
        description: null,
        events: created.events,
        where: {},
        include: [],
        enabled: true,
      },
      by: settingsName('admin', KEYS.admin),
    });
    assert.deepEqual(entries[1].before.where, { definition: ['d'], schedule: ['s'] });
  });

  test('with fields that are wrong are refused, and nothing is stored', async () => {
    const before = (await service.send('GET', '/webhooks')).text;
    const refused = async (body: object, errors: readonly string[]) =>
      assertInvalid(await service.send('POST', '/webhooks', { body }), errors);
    await refused({}, ['url is required']);
    await refused({ url: '' }, ['url must be a string without control characters of 1 to 2048 characters']);
    await refused({ url: 'gopher://example.com' }, ['url must be an http or https URL']);
    await refused({ url: 'https://10.0.0.1/' }, [
      'the host of url has an address that is neither public nor in SERVICE_WEBHOOK_NETWORKS',
    ]);
    const { url } = receiver;
    await refused({ url, secret: 'x' }, ['secret is not a known field']);
    await refused({ url, where: { image: ['x'] } }, ['where.image is not a known field']);
    for (const events of [
      [],
      ['run.failed', 'run.failed'],
      ['run.paused'],
      ['group.started'],
      'run.failed',
    ]) {
      const answer = await service.send('POST', '/webhooks', { body: { url, events } });
      assert.equal(answer.status, 400);
      assert.match(answer.text, /events must be a list of different ones out of run\.created/);
    }
    await refused({ url, where: { label: ['Team=x'] } }, [
      'where.label must be a list of 1 to 100 items, each a label as key or key=value of at most 320 characters',
    ]);
    assert.equal((await service.send('GET', '/webhooks')).text, before);
    const { id } = await webhooks.create({ url });
    assertInvalid(await service.send('PATCH', `/webhooks/${id}`, { body: { url: 'https://[::1]/' } }), [
      'the host of url has an address that is neither public nor in SERVICE_WEBHOOK_NETWORKS',
    ]);
    assertInvalid(await webhooks.post(id, 'replay', { from: '2100-01-01T00:00:00Z' }), [
      'from must not lie in the future',
    ]);
    assertInvalid(await webhooks.post(id, 'replay', { from: '1h', until: '2h' }), [
      'until must not be before from',
    ]);
    assertInvalid(await webhooks.post(id, 'rotate-secret', { keep_old_s: -1 }), [
      'keep_old_s must be an integer from 0 to 2592000',
    ]);
    await service.send('DELETE', `/webhooks/${id}`);
  });

  test('that do not exist are 404 on every route', async () => {
    const requests = [
      ['GET', ''],
      ['PATCH', '', {}],
      ['DELETE', ''],
      ['POST', '/rotate-secret', {}],
      ['POST', '/test'],
      ['GET', '/deliveries'],
      ['POST', '/deliveries/1/redeliver'],
      ['POST', '/replay', { from: '1h' }],
    ] as const;
    for (const id of [UNKNOWN, 'x']) {
      for (const [method, path, body] of requests) {
        const answer = await service.send(
          method,
          `/webhooks/${id}${path}`,
          body === undefined ? {} : { body },
        );
        assertError(answer, 404, `Webhook '${id}' not found`);
      }
    }
  });

  test('have a test message and deliveries that can be sent again with the same id', async () => {
    const { id, secret } = await webhooks.create({ url: receiver.url, enabled: false });
    const tested = bodyOf(await webhooks.post(id, 'test'), 'WebhookDelivery');
    assert.deepEqual([tested.type, tested.state, tested.status], ['webhook.test', 'delivered', 204]);
    receiver.reply = () => ({ status: 500, body: 'broken' });
    const failed = bodyOf(await webhooks.post(id, 'test'), 'WebhookDelivery');
    assert.deepEqual([failed.state, failed.status, failed.detail], ['failed', 500, 'broken']);
    receiver.reply = () => ({ status: 201 });
    const again = bodyOf(await webhooks.post(id, `deliveries/${failed.id}/redeliver`), 'WebhookDelivery');
    assert.deepEqual([again.state, again.tries, again.status], ['delivered', 2, 201]);
    const [first, second, third] = receiver.received.slice(-3);
    assert.equal(second?.id, third?.id);
    assert.notEqual(first?.id, second?.id);
    assert.deepEqual(first?.body, {
      type: 'webhook.test',
      timestamp: first?.body.timestamp,
      data: { webhook_id: id },
    });
    assert.ok(third && isSignedWith(third, secret));
    const pages = await service.send('GET', `/webhooks/${id}/deliveries?limit=1`);
    assert.match(String(pages.headers.get('link')), new RegExp(`after=${failed.id}`));
    assert.deepEqual(
      (await webhooks.deliveries(id, `?after=${failed.id}`)).map((one) => one.id),
      [tested.id],
    );
    assertError(await webhooks.post(id, 'deliveries/999999/redeliver'), 404, "Delivery '999999' not found");
    assert.deepEqual((await webhooks.get(id)).failures, 0);
  });

  test('have a new secret after a rotation, and both sign as long as the old one is kept', async () => {
    const { id, secret: old } = await webhooks.create({ url: receiver.url });
    const rotate = async (body: object) =>
      bodyOf(await webhooks.post(id, 'rotate-secret', body), 'WebhookWithSecret').secret;
    const signedBy = async (...secrets: readonly string[]) => {
      await webhooks.post(id, 'test');
      const message = receiver.received.at(-1);
      return secrets.map((one) => message !== undefined && isSignedWith(message, one));
    };
    const next = await rotate({ keep_old_s: 3600 });
    assert.deepEqual(await signedBy(old, next), [true, true]);
    await letWebhooksWait(service.dataSource, 3601);
    assert.deepEqual(await signedBy(old, next), [false, true]);
    const last = await rotate({});
    assert.deepEqual(await signedBy(next, last), [false, true]);
    assert.equal((await webhooks.get(id)).old_secret_until, null);
    await service.send('DELETE', `/webhooks/${id}`);
  });

  test('have secrets that are in no answer, log line or row', async () => {
    const { id, secret } = await webhooks.create({ url: receiver.url });
    const bodyOfSecret = secret.slice('whsec_'.length);
    const { secret: second } = (await webhooks.post(id, 'rotate-secret', { keep_old_s: 60 })).body;
    await webhooks.update(id, { description: 'x' });
    await webhooks.post(id, 'test');
    const answers = await Promise.all(
      [`/webhooks/${id}`, '/webhooks', `/webhooks/${id}/deliveries`, '/audit', '/metrics'].map(
        async (path) => (await service.send('GET', path)).text,
      ),
    );
    const stored = await rows<{ text: string }>(
      service.dataSource,
      `select row_to_json(w)::text as text from webhooks w
        union all select row_to_json(d)::text from webhook_deliveries d
        union all select row_to_json(a)::text from audit_entries a`,
    );
    const everything = [...answers, ...stored.map(({ text }) => text), JSON.stringify(service.logged)].join(
      '\n',
    );
    for (const text of [bodyOfSecret, second.slice('whsec_'.length)]) {
      assert.ok(!everything.includes(text));
      assert.ok(!everything.includes(Buffer.from(text, 'base64').toString('hex')));
    }
    await service.send('DELETE', `/webhooks/${id}`);
  });

  test('are at most 100, also when several are created at the same time', async () => {
    const { length } = (await service.send('GET', '/webhooks')).body;
    const answers = await Promise.all(
      Array.from({ length: 103 - length }, () =>
        service.send('POST', '/webhooks', { body: { url: receiver.url, enabled: false } }),
      ),
    );
    const refused = answers.filter(({ status }) => status !== 201);
    assert.equal(refused.length, 3);
    for (const answer of refused) assertError(answer, 409, 'There are 100 webhooks already');
  });
});

describe('webhooks without SERVICE_SECRETS_KEY', () => {
  const service = useTestApp({ env: { ...LOCAL_RECEIVERS, SERVICE_SECRETS_KEY: '' } });

  test('cannot be created: 503', async () => {
    const answer = await service.send('POST', '/webhooks', { body: { url: 'https://1.1.1.1/' } });
    assertError(answer, 503, 'Secrets are not configured', ['the operator must set SERVICE_SECRETS_KEY']);
    assert.equal(answer.headers.get('retry-after'), null);
  });
});

test('the secrets of webhooks are encrypted again by a rotation of the keys, so that the old key can go', async () => {
  const receiver = await startReceiver();
  const [oldKey, newKey] = [newSecretsKey(), newSecretsKey()];
  const database = await openTestDatabase();
  const first = await startTestApp({ database, env: { ...LOCAL_RECEIVERS, SERVICE_SECRETS_KEY: oldKey } });
  const { id, secret } = await new WebhookSteps(first.send).create({ url: receiver.url });
  const { secret: second } = (
    await first.send('POST', `/webhooks/${id}/rotate-secret`, { body: { keep_old_s: 600 } })
  ).body;
  await first.close();
  const both = await startTestApp({
    database,
    env: { ...LOCAL_RECEIVERS, SERVICE_SECRETS_KEY: `${newKey},${oldKey}` },
  });
  assert.deepEqual((await both.send('POST', '/secrets/rotate')).body, { rotated: 1, remaining: 0 });
  assert.deepEqual((await both.send('POST', '/secrets/rotate')).body, { rotated: 0, remaining: 0 });
  await both.close();
  const last = await startTestApp({ database, env: { ...LOCAL_RECEIVERS, SERVICE_SECRETS_KEY: newKey } });
  assert.equal((await last.send('POST', `/webhooks/${id}/test`)).body.state, 'delivered');
  const [message] = receiver.received;
  assert.ok(message && isSignedWith(message, secret) && isSignedWith(message, second));
  await last.close();
  await database.close();
  await receiver.close();
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
