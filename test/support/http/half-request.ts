import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { until, type ServiceProcess } from '../service-process.js';

const BODY = JSON.stringify({ image: 'in-flight', inputs: { text: 'late' } });

/** A request that the service has begun to read and that lacks the end of its body. */
export async function beginRequest({ url, adminKey }: ServiceProcess): Promise<ClientRequest> {
  const begun = request(`${url}/runs`, {
    method: 'POST',
    headers: {
      'X-API-Key': adminKey,
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(BODY),
      Expect: '100-continue',
    },
  });
  // The service says "continue" once it has the head.
  const accepted = new Promise((resolve, reject) => {
    begun.once('continue', resolve).once('error', reject);
  });
  begun.flushHeaders();
  await accepted;
  begun.write(BODY.slice(0, 10));
  return begun;
}

/** Sends the rest, and answers what came back for the run. @throws Error when the connection breaks */
export async function finishRequest(
  begun: ClientRequest,
): Promise<{ status: number | undefined; id: string }> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    begun.once('response', resolve).once('error', reject);
  });
  begun.end(BODY.slice(10));
  const response = await answered;
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  return { status: response.statusCode, id: String(JSON.parse(text).id) };
}

/** Waits until connections are refused. */
export async function untilNobodyListens({ url }: ServiceProcess): Promise<void> {
  const port = Number(new URL(url).port);
  await until(
    () =>
      new Promise<boolean>((answer) => {
        const socket = connect({ port, host: '127.0.0.1' });
        socket.once('connect', () => answer(false)).once('error', () => answer(true));
        socket.once('connect', () => socket.destroy());
      }),
    'the service goes on accepting connections',
  );
}
