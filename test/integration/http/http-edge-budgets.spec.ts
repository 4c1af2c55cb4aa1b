import 'reflect-metadata';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, it } from 'vitest';
import { setTimeout as delay } from 'node:timers/promises';
import { CUT_OFF } from '../../../src/common/http/server/connections.js';
import type { Budgets } from '../../../src/config/budgets.js';
import { get } from '../../support/http/edge-requests.js';
import { startEdge, type EdgeApp } from '../../support/app/http-edge-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';

const SLOW = requestText('POST', '/slow');
const MB = 1024 * 1024;

async function eventually(holds: () => boolean, problem: string): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!holds()) {
    assert.ok(performance.now() < deadline, problem);
    await delay(10);
  }
}

describe('the budgets of connections', () => {
  let edge: EdgeApp;
  let cutOff: string[];
  const opened: (RawConnection | Socket)[] = [];
  afterEach(async () => {
    for (const connection of opened.splice(0)) connection.destroy();
    await edge.app.close();
  });

  async function start(budgets: Partial<Budgets>): Promise<void> {
    edge = await startEdge({}, budgets);
    cutOff = [];
    edge.app.getHttpServer().on(CUT_OFF, (setting: string) => cutOff.push(setting));
  }

  async function open(): Promise<RawConnection> {
    const connection = await RawConnection.open(edge.port);
    opened.push(connection);
    return connection;
  }

  /** Sends requests, and reads nothing. @returns the server's side of the connection */
  async function sendWithoutReading(text: string): Promise<Socket> {
    const accepted = once(edge.app.getHttpServer(), 'connection');
    const socket = connect({ port: edge.port, host: '127.0.0.1' })
      .pause()
      .on('error', () => undefined);
    opened.push(socket);
    const [server]: Socket[] = await accepted;
    assert.ok(server);
    socket.write(text);
    return server;
  }

  async function roundTrip(): Promise<void> {
    assert.equal((await (await open()).send(get('/list')).next()).status, 200);
  }

  it('start a few pipelined requests at a time, and the others in their order when these are answered', async () => {
    await start({ connectionRequests: 2 });
    const connection = (await open()).send(SLOW.repeat(5));
    for (const [started, answers] of [
      [2, 2],
      [4, 2],
      [5, 1],
    ] as const) {
      await eventually(() => edge.state.calls === started, 'the next requests do not start');
      await roundTrip();
      assert.equal(edge.state.calls, started);
      edge.state.release();
      for (let n = 0; n < answers; n += 1) assert.equal((await connection.next()).status, 200);
    }
    assert.equal((await connection.send(get('/items/7')).next()).status, 200, 'the connection is read again');
    assert.deepEqual(cutOff, []);
  });

  it('forget the requests that wait when their connection ends', async () => {
    await start({ connectionRequests: 2 });
    const server = await sendWithoutReading(SLOW.repeat(5));
    await eventually(() => edge.state.waiting === 2, 'the requests do not start');
    server.destroy();
    await eventually(() => server.closed, 'the connection stays open');
    edge.state.release();
    await eventually(() => edge.state.waiting === 0, 'the requests do not end');
    await roundTrip();
    assert.equal(edge.state.calls, 2);
  });

  it('close a connection with thousands of waiting requests', async () => {
    await start({ connectionRequests: 2 });
    const connection = (await open()).send(SLOW + SLOW + get('/list').repeat(2000));
    assert.equal(await connection.closed(), '');
    assert.deepEqual(cutOff, ['SERVICE_CONNECTION_REQUESTS']);
    assert.equal(edge.state.calls, 2);
    edge.state.release();
    await roundTrip();
  });

  it('close a connection whose client reads nothing, and release what its requests hold', async () => {
    await start({ writeTimeout: 0.3 });
    const server = await sendWithoutReading(get(`/large?bytes=${12 * MB}`).repeat(6));
    await eventually(() => server.closed, 'the connection stays open');
    assert.ok(cutOff.length > 0);
    assert.deepEqual(new Set(cutOff), new Set(['SERVICE_WRITE_TIMEOUT']));
    await roundTrip();
  });

  it('let a client take its time that reads, and one that waits', async () => {
    await start({ writeTimeout: 0.5 });
    const waiting = (await open()).send(SLOW);
    await sendWithoutReading(get(`/large?bytes=${32 * MB}`));
    const client = opened.at(-1);
    assert.ok(client && 'pipe' in client);
    let size = 0;
    let pauses = 0;
    for await (const chunk of client) {
      size += Buffer.from(chunk).length;
      if (size > (pauses + 1) * MB) {
        pauses += 1;
        await delay(50);
      }
      if (size >= 32 * MB) break;
    }
    assert.ok(size >= 32 * MB, `closed after ${size} bytes`);
    edge.state.release();
    assert.equal((await waiting.next()).status, 200);
    assert.deepEqual(cutOff, []);
  });

  it('close the connections with the oldest unread responses when these are too large together', async () => {
    await start({ unreadBytes: 40 * MB });
    const large = get(`/large?bytes=${16 * MB}`);
    const first = await sendWithoutReading(large);
    await eventually(() => first.writableLength > 0, 'no response');
    const second = await sendWithoutReading(large);
    await eventually(() => second.writableLength > 0, 'no response');
    assert.deepEqual(cutOff, []);
    const third = await sendWithoutReading(large);
    await eventually(() => first.closed, 'the oldest stays open');
    assert.deepEqual(cutOff, ['SERVICE_UNREAD_BYTES']);
    assert.deepEqual([second.closed, third.closed], [false, false]);
    // A client that reads gets its response whatever others leave unread.
    const { headers, body } = await (await open()).send(large).next();
    assert.equal(body.length, Number(headers['content-length']));
  });

  it('count a response only until it is read', async () => {
    await start({ unreadBytes: 40 * MB });
    const connection = await open();
    for (let n = 0; n < 6; n += 1) {
      assert.equal((await connection.send(get(`/large?bytes=${16 * MB}`)).next()).status, 200);
    }
    assert.deepEqual(cutOff, []);
  });

  it('refuse a connection above their number, and close idle ones for the next', async () => {
    await start({ maxConnections: 2 });
    const [idle, busy] = [await open(), (await open()).send(SLOW)];
    await idle.send(get('/list')).next();
    await eventually(() => edge.state.waiting === 1, 'the request does not start');
    const refused = connect({ port: edge.port, host: '127.0.0.1' })
      .on('error', () => undefined)
      .resume();
    opened.push(refused);
    await once(refused, 'close');
    assert.equal(await idle.closed(), '');
    await roundTrip();
    edge.state.release();
    assert.equal((await busy.next()).status, 200);
    assert.deepEqual(cutOff, ['SERVICE_MAX_CONNECTIONS']);
  });
});
