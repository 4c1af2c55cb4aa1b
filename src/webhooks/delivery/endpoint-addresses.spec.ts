import assert from 'node:assert/strict';
import dns from 'node:dns';
import { describe, test, vi } from 'vitest';
import { AddressRefused } from '@longshore/common/public-addresses';
import { EndpointAddresses } from './endpoint-addresses.js';

const NETWORK = 'an address that is neither public nor in SERVICE_WEBHOOK_NETWORKS';

function addresses(webhookHttp = false, webhookNetworks?: string): EndpointAddresses {
  return new EndpointAddresses({ webhookHttp, webhookNetworks });
}

/** Answers look-ups of names with these addresses, one after the other. */
function resolveTo(...answers: readonly (readonly string[])[]): void {
  let n = 0;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- one form of the overloaded function
  vi.spyOn(dns, 'lookup').mockImplementation(((
    _name: string,
    _options: object,
    callback: (error: Error | null, found: object[]) => void,
  ) => {
    const found = answers[Math.min(n, answers.length - 1)] ?? [];
    n += 1;
    callback(
      null,
      found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as unknown as typeof dns.lookup);
}

describe('the addresses of endpoints', () => {
  test.each([
    '127.0.0.1',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '198.18.0.1',
    '192.0.2.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '[::1]',
    '[::]',
    '[::ffff:10.0.0.1]',
    '[::ffff:8.8.8.8]',
    '[64:ff9b::a00:1]',
    '[2002:a00:1::1]',
    '[2001:0:1::1]',
    '[2001:db8::1]',
    '[fe80::1]',
    '[fc00::1]',
    '[ff02::1]',
  ])('%s is refused as a host', async (host) => {
    await assert.rejects(addresses().check(`https://${host}/`), (error: Error) => {
      assert.ok(error instanceof AddressRefused);
      return error.message.includes(NETWORK);
    });
  });

  test.each(['8.8.8.8', '[2606:4700::1111]', '1.1.1.1:8443'])('%s is accepted as a host', async (host) => {
    await addresses().check(`https://${host}/path?query=1`);
  });

  test.each(['127.0.0.1', '[::ffff:127.0.0.1]', '127.8.9.10'])(
    '%s is accepted in a network of SERVICE_WEBHOOK_NETWORKS',
    async (host) => {
      await addresses(true, '10.0.0.0/8, 127.0.0.0/8').check(`http://${host}/`);
      await assert.rejects(addresses(true, '127.0.0.0/32').check(`http://${host}/`), AddressRefused);
    },
  );

  test('a name is refused when one of its addresses is', async () => {
    resolveTo(['8.8.8.8', '10.0.0.1']);
    await assert.rejects(addresses().check('https://hooks.example.com/'), AddressRefused);
    resolveTo(['8.8.8.8', '2606:4700::1111']);
    await addresses().check('https://hooks.example.com/');
  });

  test('a name that has no address is refused', async () => {
    resolveTo([]);
    await assert.rejects(addresses().check('https://hooks.example.com/'), AddressRefused);
  });

  test.each([
    ['http://example.com/', 'url must be an https URL'],
    ['ftp://example.com/', 'url must be an https URL'],
    ['example.com', 'url must be an https URL'],
    ['https://user:password@example.com/', 'url must have no user name, password or fragment'],
    ['https://example.com/#part', 'url must have no user name, password or fragment'],
  ])('%s is refused: %s', async (url, message) => {
    await assert.rejects(addresses().check(url), { message });
  });
});
