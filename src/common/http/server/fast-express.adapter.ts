import { createServer, IncomingMessage, ServerResponse, type ServerOptions } from 'node:http';
import { Logger, NotFoundException, StreamableFile } from '@nestjs/common';
import type { NestApplicationOptions } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express from 'express';
import type { Express, NextFunction, Request, Response } from 'express';
import { stringifyJson } from '@longshore/common/json/json-text';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { INTERNAL_ERROR, JSON_TYPE, sendError } from '../errors/error-response.js';
import { parseQuery } from '../request/query-parser.js';
import { ignoreLastSlash, methodsAt } from './known-paths.js';
import { Connections, type ConnectionBudgets } from './connections.js';
import { assignRequestId } from '../request/request-id.js';
import type { RequestTracer } from './request-tracer.js';
import { refuseManyHeaders, refuseWithoutHost, respondInJson, SERVER_LIMITS } from './server-limits.js';
import { SlowBodies } from './slow-bodies.js';

const logger = new Logger('Http');

/** Options of a Nest application that concern the server and that this adapter does not implement. */
const UNSUPPORTED = ['httpsOptions', 'forceCloseConnections', 'return503OnClosing'] as const;

/** Characters of a text that is sent as a buffer. */
const LARGE_TEXT = 64 * 1024;

/** Express settings that only Express's own `response.json()` follows. */
const JSON_SETTINGS = ['etag', 'json escape', 'json replacer', 'json spaces'] as const;

/**
 * Headers that restrict what browsers do with a response. Swagger UI needs scripts of its own, inline styles and data:
 * images. No HSTS and no upgrade of insecure requests: the service also speaks plain HTTP.
 */
const SECURITY_HEADERS = new Map([
  [
    'Content-Security-Policy',
    [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self' 'unsafe-inline'",
      "img-src 'self' data:",
      "font-src 'self' data:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
    ].join('; '),
  ],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
]);

/**
 * Nest's Express adapter with strict routing, this service's query parser and its limits on connections.
 *
 * On Node 20 and 22 Express spends most of a request on changing the prototypes of request and response. Here the server
 * creates both with the prototypes that Express sets, so that setting them changes nothing.
 */
export class FastExpressAdapter extends ExpressAdapter {
  /** @param tracer null: requests are not traced */
  constructor(
    private readonly budgets: ConnectionBudgets,
    private readonly tracer: RequestTracer | null = null,
    private readonly limits: ServerOptions = SERVER_LIMITS,
  ) {
    super(createExpress());
  }

  /** @throws Error when an option asks for a server that this adapter does not create */
  override initHttpServer(options: NestApplicationOptions): void {
    const unsupported = UNSUPPORTED.filter((name) => Boolean(options[name]));
    if (unsupported.length > 0) {
      throw new Error(`FastExpressAdapter does not support ${unsupported.join(', ')}`);
    }
    const app = this.getInstance<Express>();
    class Incoming extends IncomingMessage {
      #query: unknown;

      /** Parsed once, by Express's setting "query parser"; Express itself parses at every access. */
      get query(): unknown {
        return (this.#query ??= parseQueryOf(this.url ?? '', app));
      }

      set query(query: unknown) {
        this.#query = query;
      }
    }
    class Reply<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {
      override write(...parameters: unknown[]): boolean {
        // oxlint-disable-next-line typescript/unbound-method -- it is applied to this
        const isTaken: boolean = Reflect.apply(super.write, this, parameters);
        if (!isTaken) connections.unread.note(this);
        return isTaken;
      }

      override end(...parameters: unknown[]): this {
        // oxlint-disable-next-line typescript/unbound-method -- it is applied to this
        Reflect.apply(super.end, this, parameters);
        if (this.writableLength > 0) connections.unread.note(this);
        return this;
      }
    }
    Object.setPrototypeOf(Incoming.prototype, app.request);
    Object.setPrototypeOf(Reply.prototype, app.response);
    Object.assign(app, { request: Incoming.prototype, response: Reply.prototype });
    this.httpServer = createServer({
      ...this.limits,
      // Node's would be a limit of the total time; SlowBodies sets one.
      requestTimeout: 0,
      // Node would refuse a missing Host header without a body; refuseWithoutHost sends one.
      requireHostHeader: false,
      IncomingMessage: Incoming,
      ServerResponse: Reply,
    });
    const connections = new Connections(this.httpServer, this.budgets);
    const begin = (request: Request, response: Response): void => {
      const id = assignRequestId(request, response);
      const span = this.tracer?.begin(request, response, id);
      if (span === undefined) receive(app, request, response);
      else spanStorage.run(span, receive, app, request, response);
    };
    this.httpServer.on('request', (request: Request, response: Response) => {
      connections.start(request, response, () => begin(request, response));
    });
    respondInJson(this.httpServer);
    const { requestTimeout = SERVER_LIMITS.requestTimeout, connectionsCheckingInterval } = this.limits;
    new SlowBodies(this.httpServer, requestTimeout).start(connectionsCheckingInterval);
  }

  /**
   * Responds to every unknown path in the same way, also outside a global prefix, and without repeating the path. Of a path
   * that has other methods the response names these.
   */
  override setNotFoundHandler(): void {
    this.use((request: Request, _response: Response, next: NextFunction) => {
      const methods = methodsAt(this.getInstance<Express>(), request.path);
      next(
        new NotFoundException(
          methods.length === 0
            ? 'Not found'
            : `Not found: this path has only ${methods.join(', ')}, not ${request.method}`,
        ),
      );
    });
  }

  /**
   * Sends JSON in one piece with its length; sends no body when there is no value or the status allows none. Everything
   * else is left to Express, and JSON too if a setting of Express concerns it.
   */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    const status = statusCode ?? response.statusCode;
    if (body === undefined || body === null || status === 204 || status === 304) {
      response.statusCode = status;
      return response.end();
    }
    if (!isPlainJson(body) || response.hasHeader('Content-Type') || this.#hasJsonSettings()) {
      return super.reply(response, body, statusCode);
    }
    response.statusCode = status;
    const text = stringifyJson(body);
    // Node would keep the string and a copy of it until the client has read a large one.
    const content = text.length > LARGE_TEXT ? Buffer.from(text) : text;
    response.setHeader('Content-Type', JSON_TYPE);
    response.setHeader('Content-Length', Buffer.byteLength(content));
    return response.end(content);
  }

  #hasJsonSettings(): boolean {
    const { settings } = this.getInstance<{ readonly settings: Readonly<Record<string, unknown>> }>();
    return JSON_SETTINGS.some((name) => Boolean(settings[name]));
  }
}

function receive(app: Express, request: Request, response: Response): void {
  for (const [name, value] of SECURITY_HEADERS) response.setHeader(name, value);
  if (refuseManyHeaders(request, response) || refuseWithoutHost(request, response)) return;
  ignoreLastSlash(app, request);
  app(request, response, (error: unknown) => {
    // Nest's handlers answer every error; Express would answer a fault of theirs by a page with its stack.
    logger.error(error);
    if (response.headersSent) response.destroy();
    else sendError(request, response, INTERNAL_ERROR);
  });
}

function parseQueryOf(url: string, app: Express): unknown {
  const parse: unknown = app.get('query parser fn');
  const start = url.indexOf('?');
  return start < 0 || typeof parse !== 'function' ? Object.create(null) : parse(url.slice(start + 1));
}

function isPlainJson(body: unknown): boolean {
  return (
    typeof body === 'object' && body !== null && !(body instanceof StreamableFile) && !(body instanceof Error)
  );
}

/** The settings must be in place before the adapter adds its first middleware, which creates the router. */
function createExpress(): Express {
  const app = express();
  app.enable('case sensitive routing');
  app.enable('strict routing');
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', parseQuery);
  return app;
}
