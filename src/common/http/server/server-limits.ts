import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { bodyStates } from '../request/body-reader.js';
import { JSON_TYPE, sendError } from '../errors/error-response.js';

/** Event of a server: a client was refused, with this status, before there was a request that could be handled. */
export const REFUSED_AT_EDGE = 'refusedAtEdge';

/** What one connection may cost the server, beyond the size of a body; times in milliseconds. */
export const SERVER_LIMITS = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  /** Of a body: see SlowBodies. */
  requestTimeout: 30_000,
  /** How often the two timeouts above are checked. */
  connectionsCheckingInterval: 1000,
  keepAliveTimeout: 65_000,
} as const satisfies ServerOptions;

/** A request with more headers is refused: Node leaves out those beyond its own limit. */
const MAX_HEADERS = 200;

/** How long a refused client has to read its response before the connection is cut, in milliseconds. */
const LINGER_MS = 1000;

/** Makes a server respond in JSON where Node would respond by itself. */
export function respondInJson(server: Server): void {
  server.maxHeadersCount = MAX_HEADERS + 1;
  const refused = new WeakSet<Socket>();
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const status = refused.has(socket) ? undefined : refuseConnection(error, socket);
    if (status !== undefined) server.emit(REFUSED_AT_EDGE, status);
    refused.add(socket);
  });
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    bodyStates.set(request, 'held-back');
    server.emit('request', request, response);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    sendError(request, response, { status: 417, body: { detail: 'Expectation cannot be met' }, close: true });
  });
  server.on('connect', (_: IncomingMessage, socket: Socket) => {
    server.emit(REFUSED_AT_EDGE, endWith(socket, 404, 'Not Found', 'Not found'));
  });
}

/** Refuses a request with too many headers with 431 (RFC 6585). @returns whether it did */
export function refuseManyHeaders(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.rawHeaders.length <= 2 * MAX_HEADERS) return false;
  const detail = `Too many request headers: at most ${MAX_HEADERS}`;
  sendError(request, response, { status: 431, body: { detail }, close: true });
  return true;
}

/** Refuses an HTTP/1.1 request without Host header with 400 (RFC 9112). @returns whether it did */
export function refuseWithoutHost(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.headers.host !== undefined || request.httpVersion !== '1.1') return false;
  sendError(request, response, { status: 400, body: { detail: 'Host header is missing' }, close: true });
  return true;
}

/** @returns the status that was sent; undefined when the client gets no response */
function refuseConnection(
  { code = '' }: NodeJS.ErrnoException,
  // Node keeps the response that occupies the connection here and offers no public way to it.
  socket: Socket & { _httpMessage?: ServerResponse | null },
): number | undefined {
  if (!socket.writable || !/^(?:HPE_|ERR_HTTP_)/.test(code)) {
    socket.destroy();
    return undefined;
  }
  // oxlint-disable-next-line no-underscore-dangle -- see above
  const current = socket._httpMessage;
  if (current && bodyStates.get(current.req) !== 'reading') {
    // An earlier request is in progress: the refusal must not replace its response.
    if (current.headersSent) current.once('close', () => socket.destroySoon());
    else current.shouldKeepAlive = false;
    return undefined;
  }
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return endWith(socket, 431, 'Request Header Fields Too Large', 'Request headers are too large');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return endWith(socket, 413, 'Payload Too Large', 'Chunk extensions are too large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return endWith(socket, 408, 'Request Timeout', 'Request took too long to arrive');
    default:
      return endWith(socket, 400, 'Bad Request', 'Malformed HTTP request');
  }
}

function endWith(socket: Socket, status: number, phrase: string, detail: string): number {
  const body = JSON.stringify({ detail });
  const lines = [
    `HTTP/1.1 ${status} ${phrase}`,
    `Content-Type: ${JSON_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'X-Content-Type-Options: nosniff',
    'Connection: close',
  ];
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return status;
}
