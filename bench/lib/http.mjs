import { Agent, request } from 'node:http';

/** A sender over kept connections, as lean as node:http allows: the generator must not be what is measured. */
export function sender(baseUrl, key, connections) {
  const { hostname, port } = new URL(baseUrl);
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const send = (method, path, body, headers = {}) =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const sent = request(
        {
          agent,
          hostname,
          port,
          method,
          path,
          headers: {
            'X-API-Key': key,
            ...(text === undefined
              ? {}
              : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
            ...headers,
          },
        },
        (response) => {
          const chunks = [];
          response.on('data', (chunk) => chunks.push(chunk));
          response.on('end', () =>
            resolve({ status: response.statusCode, text: () => Buffer.concat(chunks).toString() }),
          );
          response.on('error', reject);
        },
      );
      sent.on('error', reject);
      sent.end(text);
    });
  return { send, close: () => agent.destroy() };
}

/** The JSON of an answer that must be a success. @throws Error for any other */
export function bodyOf(answer) {
  if (answer.status >= 300) throw new Error(`answered ${answer.status}: ${answer.text()}`);
  const text = answer.text();
  return text === '' ? undefined : JSON.parse(text);
}
