import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, type BeforeApplicationShutdown } from '@nestjs/common';
import { OpenItems } from '@longshore/common/open-items';
import { monotonicMs } from '../../monotonic-ms.js';

const DRAIN_LIMITS = {
  /** Requests still in progress after this long are cut off. */
  limitMs: 10_000,
  /** Idle connections are closed after this long, so that requests already on the wire are still answered. */
  graceMs: 100,
};
type DrainLimits = Readonly<typeof DRAIN_LIMITS>;

const STEP_MS = 25;

/**
 * Takes an HTTP server out of service without losing responses: it stops listening, sends `Connection: close` with the
 * responses in progress, closes idle connections, and after a limit the rest. Held requests end when `signal` aborts.
 * Every response closes with its connection at the latest.
 */
@Injectable()
export class Drain implements BeforeApplicationShutdown {
  readonly #controller = new AbortController();
  /** Open connections, with the responses in progress on each. */
  readonly #sockets = new Map<Socket, OpenItems<ServerResponse>>();
  #server: Server | undefined;
  #done: Promise<void> | undefined;

  /** Aborts when draining begins. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Call it once, before the server listens. */
  attach(server: Server): void {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      const responses = new OpenItems<ServerResponse>();
      this.#sockets.set(socket, responses);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        // Node closes only the first response of a connection, not those of the pipelined requests behind it.
        process.nextTick(() => {
          for (const response of responses.list()) {
            response.destroy();
            response.emit('close');
          }
        });
      });
    });
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      const responses = this.#sockets.get(request.socket);
      if (responses !== undefined) response.once('close', responses.add(response));
      if (this.signal.aborted) response.shouldKeepAlive = false;
    });
  }

  /**
   * Drains the server; a second call changes nothing and returns the same promise.
   * @returns when the last connection is closed
   */
  begin(limits: DrainLimits = DRAIN_LIMITS): Promise<void> {
    this.#done ??= this.#drain(limits);
    return this.#done;
  }

  /** An application that is closed without a drain does not wait for clients that are silent. */
  beforeApplicationShutdown(): Promise<void> {
    return this.begin({ ...DRAIN_LIMITS, graceMs: 0 });
  }

  async #drain({ graceMs, limitMs }: DrainLimits): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    // http's own close() would cut idle connections at once, and with them requests on the wire.
    if (server.listening) NetServer.prototype.close.call(server);
    const startedAt = monotonicMs();
    for (const responses of this.#sockets.values()) {
      for (const response of responses.list()) if (!response.headersSent) response.shouldKeepAlive = false;
    }
    this.#controller.abort();
    await delay(graceMs);
    while (this.#sockets.size > 0 && monotonicMs() - startedAt < limitMs) {
      server.closeIdleConnections();
      // Node counts a connection that has not sent a byte as busy.
      for (const socket of this.#sockets.keys()) if (socket.bytesRead === 0) socket.destroy();
      await delay(STEP_MS);
    }
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}
