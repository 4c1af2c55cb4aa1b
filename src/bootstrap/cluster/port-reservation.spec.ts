import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, it } from 'node:test';
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
  it('takes a free port and holds it until it is released', async () => {
    const reservation = new PortReservation(HOST, 0);
    const port = await reservation.hold();
    assert.ok(port > 0);
    assert.equal(await canListen(port), false);
    await reservation.release();
    assert.equal(await canListen(port), true);
    assert.equal(await reservation.hold(), port);
    assert.equal(await canListen(port), false);
    await reservation.release();
  });

  it('closes connections', async () => {
    const reservation = new PortReservation(HOST, 0);
    const socket = connect(await reservation.hold(), HOST);
    socket.on('error', () => undefined);
    await once(socket, 'close');
    await reservation.release();
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
    await assert.rejects(reservation.hold(), { code: 'EADDRINUSE' });
    other.close();
    await once(other, 'close');
    assert.equal(await reservation.hold(), address.port);
    await reservation.release();
  });
});
