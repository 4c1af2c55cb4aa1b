import { HttpConnection } from './http-connection.mjs';

/** A kept connection that was idle for longer, in milliseconds, may be closed by the server at any moment. */
const STALE_MS = 3_000;

/**
 * A sender over kept connections; what finds none free waits for one.
 * @param connections the most that are open at a time
 * @returns `send(method, path, body, headers)`, which answers `{ status, bytes(), text(), header(name) }`, and `close()`. A body
 * that is a string is sent as it is: JSON text that is the same every time is best made once.
 */
export function sender(baseUrl, key, connections) {
  const { hostname, port, host } = new URL(baseUrl);
  const common = `Host: ${host}\r\nX-API-Key: ${key}\r\n`;
  const open = new Set();
  const idle = [];
  const queue = [];
  const onClose = (connection) => {
    open.delete(connection);
    const next = queue.shift();
    if (next !== undefined) next.resolve(connected());
  };
  const connected = () => {
    const connection = new HttpConnection(hostname, port, onClose);
    open.add(connection);
    return connection;
  };
  const take = () => {
    for (let kept = idle.pop(); kept !== undefined; kept = idle.pop()) {
      if (kept.closed) continue;
      if (performance.now() - kept.idleSince < STALE_MS) return kept;
      kept.close();
    }
    if (open.size < connections) return connected();
    return new Promise((resolve, reject) => {
      queue.push({ resolve, reject });
    });
  };
  const giveBack = (connection) => {
    if (connection.closed) return;
    const next = queue.shift();
    if (next !== undefined) {
      next.resolve(connection);
      return;
    }
    connection.idleSince = performance.now();
    idle.push(connection);
  };
  const send = async (method, path, body, headers) => {
    const [text, encoding] = requestText(method, path, common, body, headers);
    const taken = take();
    const connection = taken instanceof HttpConnection ? taken : await taken;
    try {
      return await connection.exchange(text, encoding);
    } finally {
      giveBack(connection);
    }
  };
  const close = () => {
    const error = new Error('the sender was closed');
    for (const { reject } of queue.splice(0)) reject(error);
    for (const connection of open) connection.close(error);
  };
  return { send, close };
}

function requestText(method, path, common, body, headers) {
  let head = `${method} ${path} HTTP/1.1\r\n${common}`;
  if (headers !== undefined) for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  if (body === undefined) {
    return [method === 'POST' ? `${head}Content-Length: 0\r\n\r\n` : `${head}\r\n`, 'latin1'];
  }
  const content = typeof body === 'string' ? body : JSON.stringify(body);
  const length = Buffer.byteLength(content);
  return [
    `${head}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${content}`,
    length === content.length ? 'latin1' : 'utf8',
  ];
}

/** The JSON of an answer that must be a success. @throws Error for any other */
export function bodyOf(answer) {
  if (answer.status >= 300) throw new Error(`answered ${answer.status}: ${answer.text()}`);
  const text = answer.text();
  return text === '' ? undefined : JSON.parse(text);
}
