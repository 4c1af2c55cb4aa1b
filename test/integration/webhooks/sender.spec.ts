import assert from 'node:assert/strict';
import dns from 'node:dns';
import { generateKeySync } from 'node:crypto';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { startReceiver, type Receiver } from '../../support/webhooks/receiver.js';
import { SecretCipher } from '../../../src/secrets/secret-cipher.js';
import { WebhookSecrets } from '../../../src/webhooks/webhook-secrets.js';
import { EndpointAddresses } from '../../../src/webhooks/delivery/endpoint-addresses.js';
import { WebhookSender, type Attempt } from '../../../src/webhooks/delivery/webhook-sender.js';

const MESSAGE = { messageId: 'm', type: 'webhook.test', subject: 's', body: '{}' };

describe('a sender', () => {
  const secrets = new WebhookSecrets(
    new SecretCipher({ secretsKeys: [generateKeySync('aes', { length: 256 })] }),
  );
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());

  const send = async (host: string, webhookNetworks?: string): Promise<Attempt> => {
    const sender = new WebhookSender(new EndpointAddresses({ webhookHttp: true, webhookNetworks }), secrets);
    const url = new URL(receiver.url);
    url.hostname = host;
    const id = '019a2b3c-2222-7000-8000-0c1d2e3f4a5b';
    try {
      return await sender.send(
        { id, url: url.href, secret: secrets.generate(id).stored, oldSecret: null },
        MESSAGE,
      );
    } finally {
      sender.onModuleDestroy();
    }
  };

  test('connects to no private address of a name that was public when it was checked', async () => {
    let isFirst = true;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- one form of the overloaded function
    vi.spyOn(dns, 'lookup').mockImplementation(((
      _name: string,
      _options: object,
      callback: (error: Error | null, found: object[]) => void,
    ) => {
      callback(null, [{ address: isFirst ? '8.8.8.8' : '127.0.0.1', family: 4 }]);
      isFirst = false;
    }) as unknown as typeof dns.lookup);
    await new EndpointAddresses({ webhookHttp: true, webhookNetworks: undefined }).check(
      'http://changes.example.com/',
    );
    const attempt = await send('changes.example.com');
    assert.equal(attempt.isDelivered, false);
    assert.match(String(attempt.detail), /neither public/);
    assert.equal(receiver.received.length, 0);
    assert.equal((await send('changes.example.com', '127.0.0.0/8')).isDelivered, true);
  });

  test('connects to no private address that a URL has', async () => {
    receiver.received.length = 0;
    for (const host of ['127.0.0.1', '2130706433', '[::1]', '[::ffff:127.0.0.1]']) {
      assert.match(String((await send(host)).detail), /neither public/, host);
    }
    assert.equal(receiver.received.length, 0);
  });

  test('follows no redirect, and keeps 512 characters of an answer of any length', async () => {
    receiver.reply = ({ path }) =>
      path === '/hook'
        ? { status: 302, headers: { location: '/elsewhere' }, body: 'moved\0'.repeat(100_000) }
        : { status: 204 };
    receiver.received.length = 0;
    const attempt = await send('127.0.0.1', '127.0.0.0/8');
    assert.deepEqual([attempt.isDelivered, attempt.status], [false, 302]);
    assert.ok(attempt.detail?.startsWith('movedmoved'));
    assert.ok((attempt.detail?.length ?? 0) <= 512);
    assert.equal(receiver.received.length, 1);
  });
});
