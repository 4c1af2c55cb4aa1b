import { once } from 'node:events';
import {
  Agent,
  createServer,
  request,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exchange } from './exchange.js';

/** A fault that keeps a request from the service. */
export type RequestFault =
  | { readonly kind: 'cut' }
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly retryAfterS?: number;
      readonly detail?: string;
      /** The problems of the request, as the service names them. */
      readonly errors?: readonly string[];
    }
  /** A page of another server, a proxy for example. */
  | { readonly kind: 'page'; readonly status: number };

/** A fault of the service's answer. */
export type AnswerFault =
  | { readonly kind: 'cut' }
  | { readonly kind: 'hold'; readonly ms: number }
  /** The body arrives in pieces over this time. */
  | { readonly kind: 'trickle'; readonly ms: number }
  /** `body` stands in for the JSON of the answer. */
  | { readonly kind: 'alter'; readonly body: unknown };

/** Target of injected redirects; a worker must not follow them. */
export const REDIRECTED = '/redirected';

/** Pieces of an answer that arrives slowly. */
const PIECES = 20;

/** Called once per request; null: no fault. */
export interface ProxyFaults {
  readonly onRequest?: (exchange: Exchange) => RequestFault | null;
  /** May need the whole answer: with it, the service sees no `If-None-Match`, to which it could answer 304. */
  readonly onAnswer?: (exchange: Exchange) => AnswerFault | null | Promise<AnswerFault | null>;
}

interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
}

/** A proxy between worker and service that records every request and injects faults. */
export class FaultProxy {
  /** In the order of their arrival. */
  readonly exchanges: Exchange[] = [];
  faults: ProxyFaults = {};
  private readonly agent = new Agent({ keepAlive: true });
  private readonly sockets = new Set<Socket>();
  private isPartitioned = false;

  private constructor(
    private readonly server: Server,
    private readonly servicePort: number,
  ) {
    server.on('request', (asked: IncomingMessage, answer: ServerResponse) => void this.pass(asked, answer));
    server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
    });
  }

  /** Listens on a free port of 127.0.0.1. */
  static async start(servicePort: number): Promise<FaultProxy> {
    const server = createServer({ requestTimeout: 0 });
    const proxy = new FaultProxy(server, servicePort);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  /** Where the worker reaches it. */
  get url(): string {
    const address = this.server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  /** Drops everything in both directions; connections stay open. */
  partition(): void {
    this.isPartitioned = true;
  }

  /** Ends a partition and destroys its connections. */
  heal(): void {
    if (!this.isPartitioned) return;
    this.isPartitioned = false;
    this.cutAll();
  }

  /** Destroys all connections; requests in progress get no answer. */
  cutAll(): void {
    for (const exchange of this.exchanges) exchange.doneAtMs ??= performance.now();
    for (const socket of this.sockets) socket.destroy();
  }

  /** Clears the records and removes the faults. */
  reset(): void {
    this.heal();
    this.faults = {};
    this.exchanges.length = 0;
  }

  async close(): Promise<void> {
    this.server.close();
    this.cutAll();
    this.agent.destroy();
    await once(this.server, 'close');
  }

  private async pass(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const bytes = await readBody(asked);
    if (bytes === null) return;
    const url = new URL(asked.url ?? '/', this.url);
    const exchange: Exchange = {
      atMs: performance.now(),
      method: asked.method ?? '',
      path: decodeURIComponent(url.pathname),
      query: url.searchParams,
      headers: asked.headers,
      body: parsed(bytes),
      answer: null,
      delivered: false,
      doneAtMs: null,
      hungUpAtMs: null,
    };
    answer.once('close', () => {
      if (exchange.doneAtMs === null && !this.isPartitioned) exchange.hungUpAtMs = performance.now();
    });
    this.exchanges.push(exchange);
    if (this.isPartitioned) return;
    const fault = this.faults.onRequest?.(exchange) ?? null;
    if (fault?.kind === 'cut') {
      cut(exchange, answer);
      return;
    }
    const given = fault === null ? await this.forward(asked, bytes, answer) : injected(fault, this.url);
    if (this.isPartitioned) return;
    if (given === null) {
      cut(exchange, answer);
      return;
    }
    const retryAfterS = Number(given.headers['retry-after'] ?? 0);
    exchange.answer = { status: given.status, body: parsed(given.bytes), retryAfterS };
    const after = (await this.faults.onAnswer?.(exchange)) ?? null;
    if (after?.kind === 'hold') await sleep(after.ms);
    if (this.isPartitioned) return;
    if (after?.kind === 'cut') {
      cut(exchange, answer);
      return;
    }
    const said = after?.kind === 'alter' ? Buffer.from(JSON.stringify(after.body)) : given.bytes;
    // The ETag of the service names what it said: with it, a later 304 would confirm the altered body.
    const { etag, ...headers } = given.headers;
    const tag = after?.kind === 'alter' || etag === undefined ? {} : { etag };
    answer.writeHead(given.status, { ...headers, ...tag, 'content-length': said.length });
    if (after?.kind === 'trickle') await trickle(answer, said, after.ms);
    exchange.delivered = !answer.destroyed;
    exchange.doneAtMs ??= performance.now();
    answer.end(given.status === 204 || after?.kind === 'trickle' ? undefined : said);
  }

  /** @returns null without a complete answer. A worker that closes its connection aborts the request. */
  private forward(asked: IncomingMessage, bytes: Buffer, answer: ServerResponse): Promise<RawAnswer | null> {
    return new Promise((resolve) => {
      const {
        connection: _,
        'transfer-encoding': __,
        'if-none-match': ifNoneMatch,
        ...headers
      } = asked.headers;
      const isWhole = ifNoneMatch === undefined || this.faults.onAnswer !== undefined;
      const sent = request(
        {
          agent: this.agent,
          host: '127.0.0.1',
          port: this.servicePort,
          method: asked.method,
          path: asked.url,
          headers: {
            ...headers,
            ...(isWhole ? {} : { 'if-none-match': ifNoneMatch }),
            ...(bytes.length > 0 ? { 'content-length': bytes.length } : {}),
          },
        },
        (response) => {
          resolve(wholeAnswer(response));
        },
      );
      sent.on('error', () => resolve(null));
      answer.once('close', () => {
        if (!this.isPartitioned && !answer.writableEnded) sent.destroy();
      });
      sent.end(bytes);
    });
  }
}

async function wholeAnswer(response: IncomingMessage): Promise<RawAnswer | null> {
  const bytes = await readBody(response);
  const { connection: _connection, 'transfer-encoding': _encoding, ...headers } = response.headers;
  if (bytes === null || response.statusCode === undefined) return null;
  return { status: response.statusCode, headers, bytes };
}

/** The worker gets no answer. */
function cut(exchange: Exchange, answer: ServerResponse): void {
  exchange.doneAtMs ??= performance.now();
  answer.destroy();
}

async function trickle(answer: ServerResponse, bytes: Buffer, ms: number): Promise<void> {
  const size = Math.ceil(bytes.length / PIECES);
  for (let from = 0; from < bytes.length && !answer.destroyed; from += size) {
    answer.write(bytes.subarray(from, from + size));
    await sleep(ms / PIECES);
  }
}

function injected(fault: Exclude<RequestFault, { kind: 'cut' }>, url: string): RawAnswer {
  if (fault.kind === 'answer') return injectedAnswer(fault, url);
  const { status } = fault;
  const bytes = Buffer.from(`<html><title>${status}</title><body>Not the service</body></html>`);
  return { status, headers: { 'content-type': 'text/html' }, bytes };
}

function injectedAnswer(
  {
    status,
    retryAfterS,
    detail = 'made up by the conformance kit',
    errors,
  }: Extract<RequestFault, { kind: 'answer' }>,
  url: string,
): RawAnswer {
  const isRedirect = status >= 300 && status < 400;
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) }),
      ...(isRedirect ? { location: `${url}${REDIRECTED}` } : {}),
    },
    bytes: Buffer.from(JSON.stringify({ detail, errors })),
  };
}

async function readBody(message: IncomingMessage): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  try {
    for await (const piece of message) pieces.push(Buffer.from(piece));
  } catch {
    return null;
  }
  return message.complete ? Buffer.concat(pieces) : null;
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
