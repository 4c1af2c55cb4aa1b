import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { holdBackBody, isReadingBody } from '../request/body-reader.js';
import { JSON_TYPE, sendError } from '../errors/error-response.js';

/** Event of a server: somebody was refused, with this status, before there was a request that could be handled. */
export const REFUSED_AT_EDGE = 'refusedAtEdge';

/** What one connection may cost the server, beyond the size of a body. */
export interface ServerLimits {
  readonly maxHeaderBytes: number;
  /** Headers beyond this many are ignored. */
  readonly maxHeaders: number;
  /** From the first byte of a request (or the opening of the connection) to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the end of its body. */
  readonly requestTimeoutMs: number;
  /** How often the two timeouts above are checked. */
  readonly checkIntervalMs: number;
  /** How long an idle connection is kept for a next request. */
  readonly keepAliveTimeoutMs: number;
}

export const SERVER_LIMITS: ServerLimits = {
  maxHeaderBytes: 16 * 1024,
  maxHeaders: 200,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  checkIntervalMs: 1000,
  keepAliveTimeoutMs: 65_000,
};

/** The limits as options of `http.createServer`. */
export function toServerOptions(limits: ServerLimits): ServerOptions {
  return {
    maxHeaderSize: limits.maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: limits.checkIntervalMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    // Node would answer a missing Host header without a body; refuseWithoutHost answers it in our shape.
    requireHostHeader: false,
  };
}

/** Makes a server give JSON answers where Node would answer by itself. */
export function answerInJson(server: Server, limits: ServerLimits): void {
  server.maxHeadersCount = limits.maxHeaders;
  const refused = new WeakSet<Socket>();
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const status = refused.has(socket) ? undefined : refuseConnection(error, socket);
    if (status !== undefined) server.emit(REFUSED_AT_EDGE, status);
    refused.add(socket);
  });
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    holdBackBody(request);
    server.emit('request', request, response);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    sendError(request, response, { status: 417, body: { detail: 'Expectation cannot be met' }, close: true });
  });
  server.on('connect', (_: IncomingMessage, socket: Socket) => {
    server.emit(REFUSED_AT_EDGE, endWith(socket, 404, 'Not Found', 'Not found'));
  });
}

/**
 * Refuses an HTTP/1.1 request without Host header with 400, as RFC 9112 asks.
 * @returns whether it did
 */
export function refuseWithoutHost(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.headers.host !== undefined || request.httpVersion !== '1.1') return false;
  sendError(request, response, { status: 400, body: { detail: 'Host header is missing' }, close: true });
  return true;
}

/** @returns the status that it answered; undefined when there was nothing to answer */
function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): number | undefined {
  const { code = '' } = error;
  if (!socket.writable || !/^(?:HPE_|ERR_HTTP_)/.test(code)) {
    socket.destroy();
    return undefined;
  }
  const current = currentResponse(socket);
  if (current !== undefined && !isReadingBody(current.req)) {
    // An earlier request is being carried out: its answer must not be replaced by the refusal of what followed.
    closeAfter(current, socket);
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

function closeAfter(response: ServerResponse, socket: Socket): void {
  if (response.headersSent) response.once('close', () => socket.destroySoon());
  else response.shouldKeepAlive = false;
}

/** The response that occupies the connection. */
function currentResponse(
  socket: Socket & { _httpMessage?: ServerResponse | null },
): ServerResponse | undefined {
  // oxlint-disable-next-line no-underscore-dangle -- Node keeps it here and offers no public way to it
  return socket._httpMessage ?? undefined;
}

// How long a refused client has to read its answer before the connection is cut.
const LINGER_MS = 1000;

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
