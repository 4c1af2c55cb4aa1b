import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, it } from 'vitest';
import { TcpProxy, type ProxyRoute } from '../support/postgres/tcp-proxy.js';

/** The length of an answer, or how it was not had. */
type Answer = number | 'cut' | 'silence';

describe('the TCP proxy', () => {
  let server: Server;
  let proxy: TcpProxy;
  let route: ProxyRoute;
  let arrived = 0;

  beforeAll(async () => {
    server = createServer((_, response) => {
      arrived += 1;
      response.end('x'.repeat(1000));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    proxy = await TcpProxy.start();
    route = await proxy.open({ port: portOf(server) });
  });

  afterAll(async () => {
    await proxy.close();
    server.closeAllConnections();
    server.close();
  });

  beforeEach(async () => {
    await route.misbehave({});
    arrived = 0;
  });

  const ask = (timeoutMs?: number): Promise<Answer> => askAt(route.port, timeoutMs);

  it('cuts before the request has arrived', async () => {
    await route.misbehave({ cutBefore: 100 });
    assert.equal(await ask(), 'cut');
    assert.equal(arrived, 0);
  });

  it('cuts after the request has arrived, before its answer or within it', async () => {
    await route.misbehave({ cutAfter: 100 });
    for (let i = 1; i <= 8; i += 1) {
      assert.equal(await ask(), 'cut');
      assert.equal(arrived, i);
    }
  });

  it('is silent as a network that is gone, and cuts once it is back', async () => {
    await route.misbehave({ blackhole: true });
    const held = ask();
    assert.equal(await ask(200), 'silence');
    assert.equal(arrived, 0);
    await route.misbehave({});
    assert.equal(await held, 'cut');
    assert.equal(await ask(), 1000);
    assert.equal(arrived, 1);
  });

  it('leads to another target, and says at once that nobody is there', async () => {
    await route.lead({ path: '/nowhere/socket' });
    assert.equal(await ask(), 'cut');
    await route.lead({ port: portOf(server) });
    assert.equal(await ask(), 1000);
  });
});

function portOf(server: Server): number {
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

/** Sends a request. */
function askAt(port: number, timeoutMs = 5000): Promise<Answer> {
  return new Promise((resolve) => {
    const asked = request({ port, host: '127.0.0.1', method: 'POST', agent: false });
    const timer = setTimeout(() => {
      resolve('silence');
      asked.destroy();
    }, timeoutMs);
    const end = (outcome: number | 'cut'): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    asked.on('error', () => end('cut'));
    asked.on('response', (response) => {
      let length = 0;
      response.on('data', (piece: Buffer) => (length += piece.length));
      response.on('error', () => end('cut'));
      response.on('end', () => end(response.complete ? length : 'cut'));
    });
    asked.end('hello');
  });
}
