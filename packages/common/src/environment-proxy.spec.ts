import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { needsDispatcher, proxyFor, useEnvironmentProxy } from './environment-proxy.js';

describe('fetch with the proxies of the environment', () => {
  const before = getGlobalDispatcher();
  let service: Server;
  let proxy: Server;
  /** What the proxy was asked for. */
  let asked: string[];

  beforeEach(async () => {
    asked = [];
    service = createServer((request, response) => {
      request.setEncoding('utf8');
      let body = '';
      request.on('data', (text: string) => (body += text));
      request.on('end', () => response.end(`${request.method} ${request.url} ${body}`));
    });
    proxy = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      service.emit('request', request, response);
    });
    proxy.on('connect', ({ url = '' }, socket) => {
      asked.push(`CONNECT ${url}`);
      const upstream = connect(portOf(service), 'localhost', () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      for (const end of [upstream, socket]) end.on('error', () => undefined);
    });
    for (const server of [service, proxy]) {
      server.listen(0, 'localhost');
      await once(server, 'listening');
    }
  });

  afterEach(() => {
    setGlobalDispatcher(before);
    for (const server of [service, proxy]) {
      server.closeAllConnections();
      server.close();
    }
  });

  it('requests http: URLs from the proxy, with a body, also from a proxy without a scheme', async () => {
    for (const scheme of ['http://', '']) {
      await useEnvironmentProxy({ HTTP_PROXY: `${scheme}localhost:${portOf(proxy)}` });
      const answer = await fetch('http://service.test:5555/runs', { method: 'POST', body: 'text' });
      assert.equal(await answer.text(), 'POST http://service.test:5555/runs text');
    }
    assert.deepEqual(asked, Array(2).fill('POST http://service.test:5555/runs'));
  });

  it('requests https: URLs through a tunnel', async () => {
    await useEnvironmentProxy({ https_proxy: `http://localhost:${portOf(proxy)}` });
    // Behind the tunnel is a server without TLS.
    await assert.rejects(fetch('https://service.test:5555/runs'));
    assert.deepEqual(asked, ['CONNECT service.test:5555']);
  });

  it('reaches this machine and the hosts of NO_PROXY directly', async () => {
    const HTTP_PROXY = `http://localhost:${portOf(proxy)}`;
    await useEnvironmentProxy({ HTTP_PROXY });
    const answer = await fetch(`http://localhost:${portOf(service)}/health`);
    assert.equal(await answer.text(), 'GET /health ');
    for (const [host, noProxy] of [
      ['[::1]:1', ''],
      ['[::2]:1', '::2'],
      ['a.service.test:1', 'other.test, .service.test'],
      ['service.test:1', '*'],
      ['127.1.2.3:1', '10.0.0.0/8,127.0.0.0/8'],
      ['[::2]:1', '::/64'],
    ] as const) {
      await useEnvironmentProxy({ HTTP_PROXY, NO_PROXY: noProxy });
      await assert.rejects(fetch(`http://${host}/`), host);
    }
    assert.deepEqual(asked, []);
  });

  it('reads NO_PROXY as curl, Go and Python do: domains, ports, addresses and ranges of addresses', () => {
    for (const [url, noProxy] of [
      ['http://10.1.2.3', '10.0.0.0/8'],
      ['https://10.1.2.3:5555', 'other, 10.0.0.0/8'],
      ['http://10.0.0.1', '10.0.0.1/32'],
      ['http://[fd00::5]', 'fd00::/8'],
      ['http://[fd00::5]', '[fd00::]/8'],
      ['http://Service.Test', '*.service.test'],
      ['http://a.service.test:80', 'SERVICE.test:80'],
      ['http://[::2]:1', '[::2]:1'],
    ] as const) {
      assert.equal(through(url, noProxy), undefined, `${url} ${noProxy}`);
    }
    for (const [url, noProxy] of [
      ['http://11.1.2.3', '10.0.0.0/8'],
      ['http://10.1.2.3', '10.0.0.0/33,10.0.0.0/x,10/8'],
      ['http://ten.test', '10.0.0.0/8'],
      ['http://[fd00::5]', '10.0.0.0/0'],
      ['http://a.service.test:81', 'service.test:80'],
      ['http://noservice.test', 'service.test'],
      ['http://service.test', ''],
    ] as const) {
      assert.equal(through(url, noProxy), 'http://proxy:3128', `${url} ${noProxy}`);
    }
    assert.equal(proxyFor('http://service.test', { HTTPS_PROXY: 'http://proxy:1' }), undefined);
  });

  it('says which variable is no proxy, without its value', async () => {
    for (const value of ['http://user:secret@', 'socks5://secret:1', 'http://secret:x'])
      await assert.rejects(useEnvironmentProxy({ HTTPS_PROXY: value }), {
        name: 'SettingsError',
        message: 'HTTPS_PROXY must be the http:// or https:// URL of a proxy',
      });
  });

  it('is needed only where a variable names a proxy or a CA', () => {
    assert.equal(needsDispatcher({ HTTPS_PROXY: '', NO_PROXY: '*' }), false);
    assert.equal(needsDispatcher({ https_proxy: 'http://proxy:3128' }), true);
    assert.equal(needsDispatcher({ SSL_CERT_FILE: '/ca.pem' }), true);
  });
});

function through(url: string, NO_PROXY: string): string | undefined {
  return proxyFor(url, { HTTP_PROXY: 'user:secret@proxy:3128', NO_PROXY });
}

function portOf(server: Server): number {
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}
