import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { Pool } from 'pg';
import { dataSourceOptions } from '../../src/database/data-source.js';
import { isDatabaseUnavailable } from '../../src/database/unavailable.js';

/** A message of PostgreSQL's protocol. */
function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

test('a connection that the server ends in the instant it is handed out costs one statement, not the process', async () => {
  const sockets: Socket[] = [];
  // Welcome and goodbye arrive together, so the goodbye is read before the pool's caller has its connection.
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.once('data', () => {
      socket.end(
        Buffer.concat([
          message('R', Buffer.alloc(4)),
          message('Z', Buffer.from('I')),
          message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0')),
        ]),
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const { extra } = dataSourceOptions({
    url: `postgres://user@127.0.0.1:${address.port}/database`,
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
