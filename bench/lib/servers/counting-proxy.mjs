import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { stoppedAtTheEnd } from './leftovers.mjs';

const QUERY = 0x51;
const PARSE = 0x50;
const BIND = 0x42;
const EXECUTE = 0x45;

/**
 * Stands between a service and PostgreSQL and counts the statements that pass, as PostgreSQL gets them: simple queries
 * and executions, begins and commits included.
 * @param target URL of PostgreSQL
 * @returns its URL for the service, how many statements have passed, how often each text did, and how to stop it
 */
export async function startCountingProxy(target) {
  const url = new URL(target);
  const directory = url.searchParams.get('host');
  const port = Number(url.port || 5432);
  const sockets = new Set();
  const texts = new Map();
  let statements = 0;
  const count = (text) => {
    statements += 1;
    texts.set(text, (texts.get(text) ?? 0) + 1);
  };
  const server = createServer((client) => {
    const upstream = connect(
      directory === null ? { host: url.hostname, port } : { path: `${directory}/.s.PGSQL.${port}` },
    );
    const read = frontendReader(count);
    client.on('data', (bytes) => {
      read(bytes);
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => client.write(bytes));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url.hostname = '127.0.0.1';
  url.port = String(server.address().port);
  url.search = '';
  const stop = stoppedAtTheEnd(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, 'close');
  });
  return { url: url.toString(), statements: () => statements, texts, stop };
}

/** Reads what a client says to PostgreSQL: a start without a type, then messages of one byte and a length. */
function frontendReader(count) {
  let rest = Buffer.alloc(0);
  let hasStarted = false;
  /** Texts of prepared statements by name; the empty name is the unnamed statement. */
  const texts = new Map();
  /** Text of the statement that was bound last: drivers execute it next. */
  let bound;
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    for (;;) {
      const head = hasStarted ? 5 : 4;
      if (rest.length < head) return;
      const length = rest.readInt32BE(head - 4) + head - 4;
      if (rest.length < length) return;
      if (hasStarted) take(rest[0], rest.subarray(5, length));
      hasStarted = true;
      rest = rest.subarray(length);
    }
  };

  function take(type, body) {
    if (type === QUERY) count(body.toString('utf8', 0, body.indexOf(0)));
    else if (type === PARSE) {
      const from = body.indexOf(0) + 1;
      texts.set(body.toString('utf8', 0, from - 1), body.toString('utf8', from, body.indexOf(0, from)));
    } else if (type === BIND) {
      const from = body.indexOf(0) + 1;
      bound = texts.get(body.toString('utf8', from, body.indexOf(0, from)));
    } else if (type === EXECUTE) count(bound ?? 'unknown');
  }
}
