import 'reflect-metadata';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { setTimeout as delay } from 'node:timers/promises';
import * as fc from 'fast-check';
import { readApiDocument } from '../../support/fuzz/api-document.js';
import { get, JSON_HEADER, post, postChunks } from '../../support/http/edge-requests.js';
import { MAX_BODY_BYTES, startEdge } from '../../support/app/http-edge-app.js';
import type { EdgeApp } from '../../support/app/http-edge-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';

const SHORT = { headersTimeout: 300, requestTimeout: 600, connectionsCheckingInterval: 50 };

/** The head of a POST whose sender waits to be asked for the body. */
function expecting(length: number): string {
  return requestText('POST', '/echo', {
    ...JSON_HEADER,
    'Content-Length': String(length),
    Expect: '100-continue',
  });
}

/** Waits for something that happens on the other side of a socket. */
async function eventually(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500 && !holds(); tries += 1) await delay(10);
  assert.ok(holds(), 'did not happen');
}

describe('connections to the HTTP edge', () => {
  let edge: EdgeApp;
  const opened: RawConnection[] = [];
  beforeAll(async () => {
    edge = await startEdge();
  });
  afterAll(() => edge.app.close());
  afterEach(() => {
    for (const connection of opened.splice(0)) connection.destroy();
    assert.deepEqual(edge.state.errors.splice(0), []);
  });

  /** Opens a connection. @returns it, and the server's side of it */
  async function connectBoth(): Promise<[RawConnection, Socket]> {
    const accepted = once(edge.app.getHttpServer(), 'connection');
    const connection = await connect();
    const [socket]: Socket[] = await accepted;
    assert.ok(socket);
    return [connection, socket];
  }

  async function connect(to: EdgeApp = edge): Promise<RawConnection> {
    const connection = await RawConnection.open(to.port);
    opened.push(connection);
    return connection;
  }

  it('stay usable after refusals', async () => {
    const connection = await connect();
    for (const [text, status] of [
      [post('{'), 400],
      [post('{"image":1}'), 400],
      [post('x', { 'Content-Type': 'text/plain' }), 415],
      [get('/items/%zz'), 404],
      [get('/nope'), 404],
      [requestText('POST', '/nope', {}, 'x'.repeat(2000)), 404],
      [requestText('POST', '/echo', { 'X-Deny': '1' }, 'x'.repeat(2000)), 401],
      [get('/list?limit=0'), 400],
      [post('{"image":"a"}'), 201],
    ] as const) {
      const answer = await connection.send(text).next();
      assert.equal(answer.status, status);
      assert.notEqual(answer.headers['connection'], 'close');
    }
  });

  it('stay usable after a body that nobody reads', async () => {
    const connection = await connect();
    const chunked = requestText('POST', '/items/1/act', { 'Transfer-Encoding': 'chunked' });
    assert.equal((await connection.send(`${chunked}4\r\n`).next()).status, 200);
    connection.send('abcd\r\n0\r\n\r\n');
    assert.equal(
      (await connection.send(requestText('POST', '/items/1/act', {}, 'x'.repeat(4000))).next()).status,
      200,
    );
    assert.equal((await connection.send(get('/list')).next()).status, 200);
  });

  it('give the answer before they close on a large body', async () => {
    const connection = await connect();
    const size = 8 * 1024 * 1024;
    connection.send(requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': String(size) }));
    for (let sent = 0; sent < size; sent += 65_536) connection.send(Buffer.alloc(65_536));
    const answer = await connection.next();
    assert.equal(answer.status, 413);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(await connection.closed(), '');
  });

  it('still take the rest of a body that was refused', async () => {
    const [connection, socket] = await connectBoth();
    connection.send(requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': '200000' }));
    assert.equal((await connection.next()).status, 413);
    connection.send(Buffer.alloc(100_000));
    await eventually(() => socket.bytesRead > 100_000);
    assert.equal(connection.isOpen, true, 'a client that still sends would be reset and lose the response');
    connection.send(Buffer.alloc(100_000));
    await connection.closed(1500);
  });

  it('are not left hanging by a body without end', async () => {
    const connection = await connect();
    connection.send(postChunks(`2000\r\n${'x'.repeat(0x2000)}\r\n`));
    assert.equal((await connection.next()).status, 413);
    await connection.closed();
  });

  it('ask for a body held back, unless it is refused', async () => {
    const connection = await connect();
    const body = '{"image":"a"}';
    connection.send(expecting(body.length));
    assert.equal((await connection.next()).status, 100);
    assert.equal((await connection.send(body).next()).status, 201);
    assert.equal((await connection.send(expecting(MAX_BODY_BYTES + 1)).next()).status, 413);
    await connection.closed(1500);
  });

  it('answer pipelined requests in their order', async () => {
    const connection = await connect();
    connection.send(get('/items/1') + post('{"image":"b"}') + get('/nope') + get('/items/4'));
    const bodies: string[] = [];
    for (let n = 0; n < 4; n += 1) bodies.push((await connection.next()).body);
    assert.match(bodies[0] ?? '', /"id":"1"/);
    assert.deepEqual(bodies.slice(1, 3), ['{"image":"b"}', '{"detail":"Not found"}']);
    assert.match(bodies[3] ?? '', /"id":"4"/);
  });

  it('do not replace the answer to a request by the refusal of what follows it', async () => {
    const connection = await connect();
    connection.send(requestText('POST', '/slow'));
    await eventually(() => edge.state.waiting === 1);
    const refused = once(edge.app.getHttpServer(), 'clientError');
    connection.send('garbage\r\n\r\n');
    await refused;
    edge.state.release();
    const answer = await connection.next();
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(await connection.closed(), '');
  });

  it('answer HEAD like GET without a body', async () => {
    const connection = await connect();
    const whole = await connection.send(get('/list?limit=5')).next();
    const head = await connection.send(requestText('HEAD', '/list?limit=5')).next({ head: true });
    assert.equal(head.status, 200);
    assert.equal(head.headers['content-length'], whole.headers['content-length']);
    assert.equal((await connection.send(requestText('HEAD', '/nope')).next({ head: true })).status, 404);
    assert.equal((await connection.send(requestText('DELETE', '/items/1')).next()).status, 204);
    assert.equal((await connection.send(get('/list')).next()).status, 200);
  });

  it('may break in the middle of a body without a trace', async () => {
    const { calls } = edge.state;
    const head = requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': '100' });
    const [connection, socket] = await connectBoth();
    connection.send(head).send('{"image"');
    await eventually(() => socket.bytesRead === `${head}{"image"`.length);
    connection.destroy();
    await eventually(() => socket.closed);
    const [half, halfSocket] = await connectBoth();
    half.send(head).finish();
    await half.closed();
    await eventually(() => halfSocket.closed);
    // A later request is answered, so the two broken ones would have reached their handler.
    const later = await connect();
    assert.equal((await later.send(get('/list')).next()).status, 200);
    assert.equal(edge.state.calls, calls);
  });

  it('survive noise', async () => {
    const noise = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc
        .tuple(
          fc.constantFrom('GET /list', 'POST /echo', 'POST /items/1/act'),
          fc.string({ unit: 'binary', maxLength: 80 }),
        )
        .map(([start, rest]) => Buffer.from(`${start}${rest}`)),
      fc
        .tuple(
          fc.constantFrom(get('/list'), post('{"image":"a"}'), postChunks('')),
          fc.uint8Array({ maxLength: 60 }),
        )
        .map(([start, rest]) => Buffer.concat([Buffer.from(start), rest])),
      fc.uint8Array({ maxLength: 80 }).map((bytes) => post(Buffer.from(bytes).toString('latin1'))),
    );
    await fc.assert(
      fc.asyncProperty(noise, async (bytes) => {
        const connection = await connect();
        const heard = await connection.send(bytes).finish().closed();
        for (const [, status = ''] of heard.matchAll(/^HTTP\/1\.1 (\d+)/gm)) {
          assert.match(status, /^(?:20[014]|40[048]|41[357]|431)$/);
        }
        connection.destroy();
      }),
      { numRuns: 200 },
    );
    const connection = await connect();
    assert.equal((await connection.send(get('/list')).next()).status, 200);
  });

  describe('that are slow', () => {
    let strict: EdgeApp;
    beforeAll(async () => {
      strict = await startEdge({ ...SHORT, keepAliveTimeout: 300 });
    });
    afterAll(() => strict.app.close());

    const slow: [title: string, text: string][] = [
      ['in their headers', 'GET /list HTTP/1.1\r\nHost: x\r\nX-A: '],
      ['in their body', requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': '50' })],
      ['in their chunks', postChunks('5\r\nab')],
      ['in sending anything', ''],
    ];
    for (const [title, text] of slow) {
      it(`are answered with 408 and closed: ${title}`, async () => {
        const connection = await connect(strict);
        const answer = await connection.send(text).next();
        assert.equal(answer.status, 408);
        assert.equal(answer.body, '{"detail":"Request took too long to arrive"}');
        const { content } = Object(readApiDocument()).components.responses.RequestTimeout;
        assert.equal(answer.body, JSON.stringify(content['application/json'].example));
        assert.equal(await connection.closed(), '');
        assert.equal(strict.state.calls, 0);
      });
    }

    it('are not confused with requests that take long to answer', async () => {
      const connection = await connect(strict);
      connection.send(requestText('POST', '/slow'));
      await delay(900);
      strict.state.release();
      assert.equal((await connection.next()).status, 200);
      strict.state.calls = 0;
    });

    it('are closed when idle', async () => {
      const connection = await connect(strict);
      await connection.send(get('/list')).next();
      assert.equal(await connection.closed(), '');
    });
  });
});
