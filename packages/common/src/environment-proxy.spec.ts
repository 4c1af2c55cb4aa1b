import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterEach, beforeEach, describe, it, vi } from 'vitest';
import { namesProxy, useEnvironmentProxy } from './environment-proxy.js';

describe('fetch with the proxies of the environment', () => {
  const before = getGlobalDispatcher();
  let service: Server;
  let proxy: Server;
  /** Hosts that the proxy was asked for. */
  let asked: string[];

  beforeEach(async () => {
    asked = [];
    service = createServer((request, response) => {
      request.setEncoding('utf8');
      let body = '';
      request.on('data', (text: string) => (body += text));
      request.on('end', () => response.end(`${request.method} ${request.url} ${body}`));
    });
    proxy = createServer();
    proxy.on('connect', ({ url = '' }, socket) => {
      asked.push(url);
      const upstream = connect(portOf(service), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      for (const end of [upstream, socket]) end.on('error', () => undefined);
    });
    for (const server of [service, proxy]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    for (const name of ['http_proxy', 'https_proxy', 'no_proxy']) vi.stubEnv(name, undefined);
    vi.stubEnv('HTTP_PROXY', `http://127.0.0.1:${portOf(proxy)}`);
    vi.stubEnv('NO_PROXY', 'localhost,127.0.0.1');
    await useEnvironmentProxy();
  });

  afterEach(() => {
    vi.unstubAllEnvs();
    setGlobalDispatcher(before);
    for (const server of [service, proxy]) {
      server.closeAllConnections();
      server.close();
    }
  });

  it('reaches a service by the proxy, with a body', async () => {
    const answer = await fetch('http://service.test:5555/runs', { method: 'POST', body: 'text' });
    assert.equal(await answer.text(), 'POST /runs text');
    assert.deepEqual(asked, ['service.test:5555']);
  });

  it('reaches a host of NO_PROXY directly', async () => {
    const answer = await fetch(`http://127.0.0.1:${portOf(service)}/health`);
    assert.equal(await answer.text(), 'GET /health ');
    assert.deepEqual(asked, []);
  });

  it('is needed only where a variable names one', () => {
    assert.equal(namesProxy({ HTTPS_PROXY: '', NO_PROXY: '*' }), false);
    assert.equal(namesProxy({ https_proxy: 'http://proxy:3128' }), true);
  });
});

function portOf(server: Server): number {
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}
