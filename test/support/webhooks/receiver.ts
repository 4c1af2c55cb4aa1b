import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** Settings with which the service reaches a receiver of a test. */
export const LOCAL_RECEIVERS = {
  SERVICE_WEBHOOK_HTTP: 'true',
  SERVICE_WEBHOOK_NETWORKS: '127.0.0.0/8',
} as const;

/* oxlint-disable typescript/no-explicit-any -- tests look into messages of any shape */

/** A message as it came in. */
export interface Received {
  readonly path: string;
  readonly id: string;
  readonly timestamp: string;
  /** Signatures in the header. */
  readonly signatures: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly body: any;
}

/** How it is answered: a status, with headers and a body. */
export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** An endpoint of a test. */
export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Replies to a message; 204 unless set. A promise delays it. */
  reply: (message: Received) => Reply | Promise<Reply>;
  close(): Promise<void>;
}

/** Starts an endpoint on a free port. */
export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const server: Server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const { headers } = request;
      const message: Received = {
        path: request.url ?? '',
        id: String(headers['webhook-id']),
        timestamp: String(headers['webhook-timestamp']),
        signatures: String(headers['webhook-signature']).split(' '),
        headers,
        text: body,
        body: JSON.parse(body),
      };
      received.push(message);
      const reply = await receiver.reply(message);
      response.writeHead(reply.status, reply.headers).end(reply.body);
    })().catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on TCP
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    reply: () => ({ status: 204 }),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return receiver;
}

/** Checks that a message is signed with a secret as Standard Webhooks describes. */
export function isSignedWith({ id, timestamp, text: body, signatures }: Received, secret: string): boolean {
  assert.match(secret, /^whsec_/);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return signatures.includes(`v1,${expected}`);
}
