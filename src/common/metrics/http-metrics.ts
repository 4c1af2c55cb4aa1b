import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { Refusals } from '../quotas/quota.js';
import { CUT_OFF } from '../http/server/connections.js';
import { HeldRequests } from '../http/server/held-requests.js';
import { REFUSED_AT_EDGE } from '../http/server/server-limits.js';
import { monotonicMs } from '../monotonic-ms.js';

/** Methods with a label of their own; clients may send any. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Route of requests that match none. */
const UNMATCHED = 'unmatched';

/** Method and route of requests that could not be read. */
const UNREAD = 'unread';

/** Status of requests whose client disconnected before the response began. */
const NO_ANSWER = 'none';

/**
 * Counts requests at the server, so that it includes those that reach no route: a wrong key, a body that is too large,
 * malformed HTTP. The label is the declared route, never a path, so the number of series is bounded.
 */
@Injectable()
export class HttpMetrics {
  readonly #requests: Counter<'method' | 'route' | 'status'>;
  readonly #seconds: Histogram<'method' | 'route'>;
  #inFlight = 0;

  constructor(
    registry: Registry,
    private readonly held: HeldRequests,
    private readonly refusals: Refusals,
  ) {
    const registers = [registry];
    this.#requests = new Counter({
      name: 'longshore_http_requests_total',
      help: 'Requests that have ended, by route and status',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'longshore_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its response, without requests that were held open',
      labelNames: ['method', 'route'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    });
    const inFlight: Gauge = new Gauge({
      name: 'longshore_http_requests_in_flight',
      help: 'Requests in progress, including those that are held open',
      registers,
      collect: () => inFlight.set(this.#inFlight),
    });
    const open: Gauge = new Gauge({
      name: 'longshore_http_held_requests',
      help: 'Requests that are held open: waiting claims, waiting heartbeats, waiting polls, streams',
      registers,
      collect: () => open.set(held.size),
    });
  }

  /** Call it once, before the server listens. */
  attach(server: Server): void {
    const begin = (_: IncomingMessage, response: ServerResponse): void => {
      const startedAt = monotonicMs();
      this.#inFlight += 1;
      response.once('close', () => this.#end(response, startedAt));
    };
    server.prependListener('request', begin);
    server.prependListener('checkExpectation', begin);
    server.on(REFUSED_AT_EDGE, (status: number) => {
      this.#requests.inc({ method: UNREAD, route: UNREAD, status });
    });
    server.on(CUT_OFF, (setting: string) => this.refusals.count(setting));
  }

  #end(response: ServerResponse, startedAt: number): void {
    this.#inFlight -= 1;
    // Express keeps the route on the request.
    const request: IncomingMessage & { readonly route?: { readonly path?: unknown } } = response.req;
    const path = request.route?.path;
    const route = typeof path === 'string' ? path : UNMATCHED;
    const method = METHODS.has(request.method ?? '') ? request.method : 'other';
    const status = response.headersSent ? response.statusCode : NO_ANSWER;
    this.#requests.inc({ method, route, status });
    if (status !== NO_ANSWER && !this.held.wasHeld(response)) {
      this.#seconds.observe({ method, route }, (monotonicMs() - startedAt) / 1000);
    }
  }
}
