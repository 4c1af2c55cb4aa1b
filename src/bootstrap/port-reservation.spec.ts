import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, it } from 'vitest';
import { PortReservation } from './port-reservation.js';

const HOST = '127.0.0.1';

async function canListen(port: number): Promise<boolean> {
  const server = createServer().listen(port, HOST);
  try {
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

describe('a port reservation', () => {
  it('answers that the service starts, alive but not ready', async () => {
    const reservation = new PortReservation(HOST, 0);
    const url = `http://${HOST}:${await reservation.hold()}`;
    reservation.status = 'Starting: waiting for something';
    const detail = reservation.status;
    for (const [path, status, body] of [
      ['/health', 503, { status: 'starting', detail }],
      ['/health?x=1', 503, { status: 'starting', detail }],
      ['/health/live', 200, { status: 'ok' }],
      ['/runs', 503, { detail }],
      ['//', 503, { detail }],
    ] as const) {
      const answer = await fetch(`${url}${path}`);
      assert.deepEqual([answer.status, await answer.json()], [status, body], path);
      assert.equal(answer.headers.get('retry-after'), status === 503 ? '1' : null);
      assert.equal(answer.headers.get('connection'), 'close');
    }
    const upload = await fetch(`${url}/runs`, { method: 'POST', body: 'x'.repeat(3_000_000) });
    assert.deepEqual(await upload.json(), { detail });
    await reservation.release();
  });

  it('is released while a client is connected that says nothing', async () => {
    const reservation = new PortReservation(HOST, 0);
    const port = await reservation.hold();
    const socket = connect(port, HOST).on('error', () => undefined);
    await once(socket, 'connect');
    await reservation.release();
    assert.equal(await canListen(port), true);
    socket.destroy();
  });

  it('may be held and released repeatedly', async () => {
    const reservation = new PortReservation(HOST, 0);
    const [first, second] = await Promise.all([reservation.hold(), reservation.hold()]);
    assert.equal(first, second);
    await Promise.all([
      reservation.release(),
      reservation.release(),
      reservation.hold(),
      reservation.release(),
    ]);
    assert.equal(await canListen(first), true);
  });

  it('fails while another program has the port, and can be retried', async () => {
    const other = createServer().listen(0, HOST);
    await once(other, 'listening');
    const address = other.address();
    assert.ok(typeof address === 'object' && address !== null);
    const reservation = new PortReservation(HOST, address.port);
    await assert.rejects(reservation.hold(), { name: 'AddressUnusable' });
    other.close();
    await once(other, 'close');
    assert.equal(await reservation.hold(), address.port);
    await reservation.release();
  });
});
