import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { test } from 'vitest';
import { Pool } from 'pg';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { isDatabaseUnavailable } from '../../../src/database/failover/unavailable.js';

/** A message of PostgreSQL's protocol. */
function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

/** The answer to the statement that sets up a session: one row of two columns, both false. */
const SET_UP = Buffer.concat([
  message('T', Buffer.concat([Buffer.from([0, 2]), column('is_standby'), column('is_read_only')])),
  message('D', Buffer.from([0, 2, 0, 0, 0, 1, 0x66, 0, 0, 0, 1, 0x66])),
  message('C', Buffer.from('SELECT 1\0')),
  message('Z', Buffer.from('I')),
]);

const GOODBYE = message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0'));

/** The description of a column of type boolean. */
function column(name: string): Buffer {
  const type = Buffer.alloc(18);
  type.writeInt32BE(16, 6);
  return Buffer.concat([Buffer.from(`${name}\0`), type]);
}

test('a connection that the server ends in the instant it is handed out costs one statement, not the process', async () => {
  const sockets: Socket[] = [];
  // The last answer and the goodbye arrive together, so the goodbye is read before the pool's caller has its connection.
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I'))]));
      socket.once('data', () => {
        socket.end(Buffer.concat([SET_UP, GOODBYE]));
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const { extra } = dataSourceOptions({
    url: `postgres://user@127.0.0.1:${address.port}/database?sslmode=disable`,
    poolSize: 1,
    applicationName: 'spec',
    entities: [],
    migrations: [],
  });
  const config = {
    host: '127.0.0.1',
    port: address.port,
    user: 'user',
    database: 'database',
    Client: extra.Client,
    servers: extra.servers,
    originGate: extra.originGate,
    circuitBreaker: extra.circuitBreaker,
  };
  const pool = new Pool(config);
  pool.on('error', () => undefined);
  for (let round = 0; round < 3; round += 1) {
    const client = await pool.connect();
    await assert.rejects(client.query('select 1'), isDatabaseUnavailable);
    client.release();
  }
  assert.equal(sockets.length, 3);
  await pool.end();
  server.close();
});
