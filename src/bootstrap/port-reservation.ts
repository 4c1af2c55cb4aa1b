import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { sendError } from '../common/http/errors/error-response.js';
import { errorText } from '@longshore/common/errors';

/**
 * Holds the service's port while nothing else listens on it: during the start, and while all server processes are being
 * replaced. No other program takes it, and probes get an answer: `GET /health/live` 200, everything else 503 with the
 * status as detail. Calls run one after the other.
 */
export class PortReservation {
  /** Human-readable start status, sent as `detail`. */
  status = 'Starting';
  #server: Server | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @param port 0 takes a free port at the first `hold` and keeps its number */
  constructor(
    private readonly host: string,
    private port: number,
  ) {}

  /** Takes the port, unless it is held. @returns its number. @throws AddressUnusable */
  hold(): Promise<number> {
    return this.#enqueue(async () => {
      if (this.#server !== undefined) return this.port;
      const server = createServer((request, response) => this.#answer(request, response));
      try {
        server.listen(this.port, this.host);
        await once(server, 'listening');
      } catch (error) {
        throw new AddressUnusable(this.host, this.port, error);
      }
      const address = server.address();
      if (typeof address === 'object' && address !== null) this.port = address.port;
      this.#server = server;
      return this.port;
    });
  }

  release(): Promise<void> {
    return this.#enqueue(async () => {
      const server = this.#server;
      this.#server = undefined;
      if (server === undefined) return;
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const [pathname] = (request.url ?? '').split('?', 1);
    if (pathname === '/health/live') {
      response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', Connection: 'close' });
      response.end('{"status":"ok"}');
      return;
    }
    const detail = this.status;
    const body = pathname === '/health' ? { status: 'starting', detail } : { detail };
    sendError(request, response, { status: 503, body, headers: { 'Retry-After': '1' }, close: true });
  }

  #enqueue<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#last.then(action);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Reasons by the system's error code. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'another program listens there already'],
  ['EACCES', 'this user may not; ports below 1024 are often for root only'],
  ['EADDRNOTAVAIL', 'this machine does not have that address'],
  ['ENOTFOUND', 'no such host is known'],
]);

/** The service cannot listen on its address. */
export class AddressUnusable extends Error {
  constructor(host: string, port: number, cause: unknown) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined;
    const reason = REASONS.get(code ?? '') ?? errorText(cause);
    super(`cannot listen on ${host}:${port}: ${reason} (--host, SERVICE_HOST; --port, SERVICE_PORT)`, {
      cause,
    });
    this.name = 'AddressUnusable';
  }
}
