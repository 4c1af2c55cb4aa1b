import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { inspect } from 'node:util';
import { test } from 'vitest';
import { connectEngine } from './docker-engine.js';

test('What the library inspects of a request does not grow with the open connections', async () => {
  const server = createServer((_, response) => void response.writeHead(200).write(' ')).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const { port } = address;
  try {
    const docker = await connectEngine({ kind: 'tcp', host: '127.0.0.1', port, tls: null });
    const inspected = (): number =>
      inspect(Reflect.get(docker.modem, 'agent'), { showHidden: true, depth: null }).length;
    const alone = inspected();
    const events = await Promise.all(Array.from({ length: 5 }, () => docker.getEvents()));
    assert.equal(events.length, 5);
    assert.equal(inspected(), alone);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
