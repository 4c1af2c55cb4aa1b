import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';

/** How patient a drain is. */
export interface DrainLimits {
  /** Requests still under way after this long are cut off. */
  readonly limitMs: number;
  /** Idle connections are closed after this long, so that requests already on the wire still get in. */
  readonly graceMs: number;
}

const DRAIN_LIMITS: DrainLimits = { limitMs: 10_000, graceMs: 100 };
const STEP_MS = 25;

/**
 * Takes an HTTP server out of service without losing answers: it stops listening, answers what is under
 * way with `Connection: close`, closes idle connections, and after a limit the rest. Whoever holds requests
 * open (long polls, streams) ends them when `signal` aborts. Every answer closes with its connection at the latest.
 */
@Injectable()
export class Drain {
  private readonly controller = new AbortController();
  /** Open connections, with the answers under way on each. */
  private readonly sockets = new Map<Socket, Set<ServerResponse>>();
  private server: Server | undefined;
  private done: Promise<void> | undefined;

  /** Aborts when draining begins. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Watches a server; call it once, before the server listens. */
  attach(server: Server): void {
    this.server = server;
    server.on('connection', (socket: Socket) => {
      const underWay = new Set<ServerResponse>();
      this.sockets.set(socket, underWay);
      socket.once('close', () => {
        this.sockets.delete(socket);
        // Node closes the answer at the front, and tells nothing of those behind it: they would be held for nobody.
        process.nextTick(() => {
          for (const response of underWay) {
            response.destroy();
            response.emit('close');
          }
        });
      });
    });
    server.prependListener('request', (_: IncomingMessage, response: ServerResponse) => this.watch(response));
  }

  /**
   * Drains the server; a second call changes nothing and gives the same promise.
   * @returns when the last connection is closed
   */
  begin(limits: DrainLimits = DRAIN_LIMITS): Promise<void> {
    this.done ??= this.drain(limits);
    return this.done;
  }

  private watch(response: ServerResponse): void {
    const underWay = this.sockets.get(response.req.socket);
    underWay?.add(response);
    response.once('close', () => underWay?.delete(response));
    if (this.signal.aborted) response.shouldKeepAlive = false;
  }

  private async drain({ graceMs, limitMs }: DrainLimits): Promise<void> {
    const { server } = this;
    if (server === undefined) return;
    // http's own close() would cut idle connections at once, and with them requests on the wire.
    if (server.listening) NetServer.prototype.close.call(server);
    const started = performance.now();
    for (const underWay of this.sockets.values()) {
      for (const response of underWay) if (!response.headersSent) response.shouldKeepAlive = false;
    }
    this.controller.abort();
    await delay(graceMs);
    while (this.sockets.size > 0 && performance.now() - started < limitMs) {
      this.closeIdle(server);
      await delay(STEP_MS);
    }
    for (const socket of this.sockets.keys()) socket.destroy();
  }

  private closeIdle(server: Server): void {
    server.closeIdleConnections();
    // Node counts a connection that has not sent a byte as busy.
    for (const socket of this.sockets.keys()) if (socket.bytesRead === 0) socket.destroy();
  }
}
