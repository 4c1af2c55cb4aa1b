import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { HeldRequests } from '../http/server/held-requests.js';
import { REFUSED_AT_EDGE } from '../http/server/server-limits.js';

/** Methods that are told apart; a client can name three dozen. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Stands for the route of requests that match none, whatever path they name. */
const UNMATCHED = 'unmatched';

/** Stands for method and route where no request could be read. */
const UNREAD = 'unread';

/** Stands for the status of requests whose client went away before the answer began. */
const NO_ANSWER = 'none';

/**
 * Counts requests by route, from the server itself, so that it sees those that no route gets to: a bad key, a body that is
 * too large, bytes that are no HTTP. Labels hold the route as it is declared and never a path, so their number is bounded.
 */
@Injectable()
export class HttpMetrics {
  readonly #requests: Counter<'method' | 'route' | 'status'>;
  readonly #seconds: Histogram<'method' | 'route'>;
  /** Answers that are not over, and when their requests came. */
  readonly #underWay = new Map<ServerResponse, number>();

  constructor(
    registry: Registry,
    private readonly held: HeldRequests,
  ) {
    const registers = [registry];
    this.#requests = new Counter({
      name: 'longshore_http_requests_total',
      help: 'Requests that are over, by route and status',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'longshore_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its answer, but for requests that were held open',
      labelNames: ['method', 'route'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    });
    const inFlight: Gauge = new Gauge({
      name: 'longshore_http_requests_in_flight',
      help: 'Requests under way, those that are held open among them',
      registers,
      collect: () => inFlight.set(this.#underWay.size),
    });
    const open: Gauge = new Gauge({
      name: 'longshore_http_held_requests',
      help: 'Requests that are held open: waiting claims, waiting polls, streams',
      registers,
      collect: () => open.set(held.size),
    });
  }

  /** Watches a server; call it once, before the server listens. */
  attach(server: Server): void {
    const watch = (_: IncomingMessage, response: ServerResponse): void => this.#watch(response);
    server.prependListener('request', watch);
    server.prependListener('checkExpectation', watch);
    server.on(REFUSED_AT_EDGE, (status: number) => {
      this.#requests.inc({ method: UNREAD, route: UNREAD, status });
    });
  }

  #watch(response: ServerResponse): void {
    this.#underWay.set(response, performance.now());
    response.once('close', () => this.#end(response));
  }

  #end(response: ServerResponse): void {
    const began = this.#underWay.get(response);
    if (began === undefined) return;
    this.#underWay.delete(response);
    const { req: request } = response;
    const method = METHODS.has(request.method ?? '') ? request.method : 'other';
    const route = routeOf(request);
    const status = response.headersSent ? response.statusCode : NO_ANSWER;
    this.#requests.inc({ method, route, status });
    if (status !== NO_ANSWER && !this.held.wasHeld(response)) {
      this.#seconds.observe({ method, route }, (performance.now() - began) / 1000);
    }
  }
}

/** The path pattern of the route that handled the request, which Express keeps on the request. */
function routeOf(request: IncomingMessage & { readonly route?: { readonly path?: unknown } }): string {
  const path = request.route?.path;
  return typeof path === 'string' ? path : UNMATCHED;
}
