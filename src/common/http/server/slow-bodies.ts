import type { IncomingMessage, Server } from 'node:http';
import { bodyStates } from '../request/body-reader.js';
import { monotonicMs } from '../../monotonic-ms.js';

/** The slowest upload that is read, in bytes per second; workers wait as long. */
export const MIN_BYTES_PER_SECOND = 4096;

interface OpenBody {
  startedAtMs: number;
  /** Bytes of the connection at that time. */
  startedAtBytes: number;
}

/**
 * Limits the time of request bodies by their progress, not in total: a large body on a slow line takes its time. In each
 * window a body must arrive completely or with the minimum rate; one that the service does not read has one window. So a
 * connection that is kept open by a body costs its client bandwidth, and the body counts against the quota of its key.
 */
export class SlowBodies {
  readonly #open = new Map<IncomingMessage, OpenBody>();

  /** @param now milliseconds of a clock that never goes back */
  constructor(
    private readonly server: Server,
    private readonly windowMs: number,
    private readonly now: () => number = monotonicMs,
  ) {
    server.prependListener('request', (request: IncomingMessage) => {
      const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
      if (length === undefined && encoding === undefined) return;
      const body = { startedAtMs: this.now(), startedAtBytes: request.socket.bytesRead };
      // A small body is there with its headers.
      process.nextTick(() => {
        if (!request.complete) this.#open.set(request, body);
      });
    });
  }

  /** Checks at this interval, in milliseconds, until the server is closed. */
  start(intervalMs = 1000): void {
    const timer = setInterval(() => this.check(), intervalMs).unref();
    this.server.once('close', () => clearInterval(timer));
  }

  /** Answers 408 to requests whose bodies are too slow, and closes their connections. */
  check(): void {
    const now = this.now();
    for (const [request, body] of this.#open) {
      const { socket, complete } = request;
      if (complete || socket.destroyed) {
        this.#open.delete(request);
        continue;
      }
      if (now - body.startedAtMs < this.windowMs) continue;
      const least = ((now - body.startedAtMs) / 1000) * MIN_BYTES_PER_SECOND;
      if (bodyStates.get(request) === 'reading' && socket.bytesRead - body.startedAtBytes >= least) {
        body.startedAtMs = now;
        body.startedAtBytes = socket.bytesRead;
        continue;
      }
      this.#open.delete(request);
      const error = Object.assign(new Error('request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
      this.server.emit('clientError', error, socket);
    }
  }
}
