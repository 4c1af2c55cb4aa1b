import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createProxy } from 'node:http';
import { createServer, type Server } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { useEnvironmentProxy } from './environment-proxy.js';
import { ownCaHint } from './own-ca.js';

/** A CA of a test, and a certificate of it for localhost and service.test with its key. They are valid for 100 years and used nowhere. */
const CA = `-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIUCVZmexhWTu9d3D0sAYrCbcXgfoAwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGb3duLWNhMCAXDTI2MTEyOTA5MjMyNFoYDzIxMjYxMTA1MDky
MzI0WjARMQ8wDQYDVQQDDAZvd24tY2EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AARZt7y4hmc8XhvuVdWFXiWRJh738cbT6zapp7S08KJDGmr6xGC97LruXMqAv1gg
OFlo2ALAM4HU7/V6lhv1WpcXo1MwUTAdBgNVHQ4EFgQU8rLgKEMOkbUU7C7RolmP
cgBxz2owHwYDVR0jBBgwFoAU8rLgKEMOkbUU7C7RolmPcgBxz2owDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBXUXIB33gAe+rKCNXUYoCm3HoS5a9a
0BGuuz21gPlrMgIhAPTor/43Tzpl1KkgmuWq0jdHJjnnVQ8xcA/EwvlMMwLd
-----END CERTIFICATE-----
`;
const CERT = `-----BEGIN CERTIFICATE-----
MIIBjjCCATWgAwIBAgIUUUsFsmeHuQufsyvygej5pTHkxhgwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGb3duLWNhMCAXDTI2MTEyOTA5MjMyNFoYDzIxMjYxMTA1MDky
MzI0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAARqLqobwzs8wtQ9edHxFwudwNRTjvYacGpf6c/aFGN50jWpV78Bo7hwvkTc
BuAGxuubLecAlhcraovVsbpUybaJo2YwZDAiBgNVHREEGzAZgglsb2NhbGhvc3SC
DHNlcnZpY2UudGVzdDAdBgNVHQ4EFgQU0RKfePRz2p02fvCWuo8rWfLbgRkwHwYD
VR0jBBgwFoAU8rLgKEMOkbUU7C7RolmPcgBxz2owCgYIKoZIzj0EAwIDRwAwRAIg
aznBhSr46Kyua7I/e7ihSOwY8RYpXolVyGtKbWLn0RECIE4WgwFyO7kkBZkNeR2M
/SLItGJlTTZbiPnW15O2h7hg
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgB9sBXqsqZEEOzLpz
Ld+NKkqXdhEHfjDEyT27rFC8htChRANCAARqLqobwzs8wtQ9edHxFwudwNRTjvYa
cGpf6c/aFGN50jWpV78Bo7hwvkTcBuAGxuubLecAlhcraovVsbpUybaJ
-----END PRIVATE KEY-----
`;

describe('a CA of the environment', () => {
  const before = getGlobalDispatcher();
  let service: Server;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'own-ca-'));
    await writeFile(join(folder, 'ca.pem'), CA);
    service = createServer({ cert: CERT, key: KEY }, (_, response) => response.end('trusted'));
    await once(service.listen(0, 'localhost'), 'listening');
  });
  afterEach(() => setGlobalDispatcher(before));
  afterAll(async () => {
    service.close();
    service.closeAllConnections();
    await rm(folder, { recursive: true });
  });

  const url = (): string => `https://localhost:${portOf(service)}/`;

  for (const name of [
    'SSL_CERT_FILE',
    'SSL_CERT_DIR',
    'CURL_CA_BUNDLE',
    'REQUESTS_CA_BUNDLE',
    'NODE_EXTRA_CA_CERTS',
  ]) {
    test(`is trusted when ${name} names it`, async () => {
      const path = name === 'SSL_CERT_DIR' ? folder : join(folder, 'ca.pem');
      await useEnvironmentProxy({ [name]: path });
      assert.equal(await (await fetch(url())).text(), 'trusted');
    });
  }

  test('is trusted behind the tunnel of a proxy', async () => {
    const proxy = createProxy();
    proxy.on('connect', (_, socket) => {
      const upstream = connect(portOf(service), 'localhost', () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      for (const end of [upstream, socket]) end.on('error', () => undefined);
    });
    await once(proxy.listen(0, 'localhost'), 'listening');
    try {
      const HTTPS_PROXY = `http://localhost:${portOf(proxy)}`;
      await useEnvironmentProxy({ HTTPS_PROXY, SSL_CERT_FILE: join(folder, 'ca.pem') });
      assert.equal(await (await fetch('https://service.test:5555/')).text(), 'trusted');
    } finally {
      proxy.close();
      proxy.closeAllConnections();
    }
  });

  test('is not trusted without these, and the error says how it would be', async () => {
    await useEnvironmentProxy({});
    const error = await fetch(url()).then(
      () => undefined,
      (reason: unknown) => (reason instanceof Error ? reason.cause : undefined),
    );
    assert.match(ownCaHint(error), /^; for an own CA, set SSL_CERT_FILE to its certificate$/);
    assert.equal(ownCaHint(new Error('other')), '');
  });

  test('that cannot be read is refused with the name of the variable', async () => {
    for (const name of ['SSL_CERT_FILE', 'SSL_CERT_DIR']) {
      await assert.rejects(useEnvironmentProxy({ [name]: join(folder, 'none') }), {
        name: 'SettingsError',
        message: new RegExp(`^${name} cannot be read: ENOENT`),
      });
    }
  });
});

function portOf(server: Pick<Server, 'address'>): number {
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}
