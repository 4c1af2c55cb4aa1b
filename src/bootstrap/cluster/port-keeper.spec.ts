import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, it } from 'node:test';
import { PortKeeper } from './port-keeper.js';

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

describe('the keeper of a port', () => {
  it('takes a free port and keeps that one from everybody else until it is released', async () => {
    const keeper = new PortKeeper(HOST, 0);
    const port = await keeper.hold();
    assert.ok(port > 0);
    assert.equal(await canListen(port), false);
    await keeper.release();
    assert.equal(await canListen(port), true);
    assert.equal(await keeper.hold(), port);
    assert.equal(await canListen(port), false);
    await keeper.release();
  });

  it('turns away whoever connects', async () => {
    const keeper = new PortKeeper(HOST, 0);
    const socket = connect(await keeper.hold(), HOST);
    socket.on('error', () => undefined);
    await once(socket, 'close');
    await keeper.release();
  });

  it('may be asked to hold and to release again and again', async () => {
    const keeper = new PortKeeper(HOST, 0);
    const [first, second] = await Promise.all([keeper.hold(), keeper.hold()]);
    assert.equal(first, second);
    await Promise.all([keeper.release(), keeper.release(), keeper.hold(), keeper.release()]);
    assert.equal(await canListen(first), true);
  });

  it('says so when another program has the port, and can be asked again', async () => {
    const other = createServer().listen(0, HOST);
    await once(other, 'listening');
    const address = other.address();
    assert.ok(typeof address === 'object' && address !== null);
    const keeper = new PortKeeper(HOST, address.port);
    await assert.rejects(keeper.hold(), { code: 'EADDRINUSE' });
    other.close();
    await once(other, 'close');
    assert.equal(await keeper.hold(), address.port);
    await keeper.release();
  });
});
