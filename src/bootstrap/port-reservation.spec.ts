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
});
