import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { readBody } from '../request/body-reader.js';
import { respondInJson } from './server-limits.js';
import { MIN_BYTES_PER_SECOND, SlowBodies } from './slow-bodies.js';

const WINDOW_MS = 30_000;
/** Bytes that a window needs. */
const ENOUGH = (WINDOW_MS / 1000) * MIN_BYTES_PER_SECOND;

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `in vain: ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('a request body', () => {
  let now = 0;
  let server: Server;
  let bodies: SlowBodies;
  let client: Socket;
  let answer = '';
  let isClosed = false;
  let request: IncomingMessage;

  beforeEach(async () => {
    now = 0;
    answer = '';
    isClosed = false;
    server = createServer({ requestTimeout: 0 }, (asked, response) => {
      request = asked;
      if (asked.url === '/held') return;
      if (asked.url === '/refused') {
        response.end('no');
        return;
      }
      readBody(asked, response, 64 * ENOUGH, () => undefined).then(
        (body) => response.end(`read ${body.length}`),
        () => response.destroy(),
      );
    });
    respondInJson(server);
    bodies = new SlowBodies(server, WINDOW_MS, () => now);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    client = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1');
    client.on('data', (bytes) => {
      answer += bytes.toString();
    });
    client.on('close', () => {
      isClosed = true;
    });
    client.on('error', () => undefined);
    await once(client, 'connect');
  });
  afterEach(async () => {
    client.destroy();
    await until('the client is closed', () => isClosed);
    server.close();
    server.closeAllConnections();
  });

  async function begin(path: string, head: string): Promise<void> {
    const begun = once(server, 'request');
    client.write(`POST ${path} HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`);
    await begun;
    await new Promise((resolve) => setImmediate(resolve));
  }

  async function send(bytes: number): Promise<void> {
    const { socket } = request;
    const before = socket.bytesRead;
    client.write(Buffer.alloc(bytes, 32));
    await until('the service has read it', () => socket.bytesRead >= before + bytes);
  }

  async function check(atMs: number): Promise<void> {
    now = atMs;
    bodies.check();
    await new Promise((resolve) => setImmediate(resolve));
  }

  const refused = () => until('408', () => answer.startsWith('HTTP/1.1 408') && isClosed);

  it('that keeps the minimum rate may take many windows', async () => {
    const windows = 7;
    await begin('/read', `Content-Length: ${windows * ENOUGH}`);
    for (let window = 1; window < windows; window += 1) {
      await send(ENOUGH);
      await check(window * WINDOW_MS);
      assert.equal(isClosed, false);
    }
    await send(ENOUGH);
    await until('the answer', () => answer.includes(`read ${windows * ENOUGH}`));
  });

  it('that comes slower than the minimum rate is refused after a window', async () => {
    await begin('/read', `Content-Length: ${2 * ENOUGH}`);
    await send(ENOUGH - 1000);
    await check(WINDOW_MS - 1);
    assert.equal(isClosed, false);
    await check(WINDOW_MS);
    await refused();
  });

  it('that began fast and stands still is refused after the next window', async () => {
    await begin('/read', 'Transfer-Encoding: chunked');
    client.write(`${(4 * ENOUGH).toString(16)}\r\n`);
    await send(4 * ENOUGH - 10);
    await check(WINDOW_MS);
    assert.equal(isClosed, false);
    await check(2 * WINDOW_MS);
    await refused();
  });

  it('that the service drops after its answer has one window, whatever its rate', async () => {
    await begin('/refused', `Content-Length: ${16 * ENOUGH}`);
    await until('the answer', () => answer.includes('no'));
    await send(2 * ENOUGH);
    await check(WINDOW_MS);
    await until('the connection is closed', () => isClosed);
  });

  it('that is complete is not limited: its response may take its time', async () => {
    await begin('/held', 'Content-Length: 4');
    client.write('null');
    request.resume();
    await until('the body is complete', () => request.complete);
    await check(100 * WINDOW_MS);
    assert.equal(isClosed, false);
    assert.equal(answer, '');
  });
});
