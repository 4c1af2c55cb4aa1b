import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { StreamableFile } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express from 'express';
import type { Express, Request, Response } from 'express';
import { JSON_TYPE } from './error-answer.js';
import { withRequestId } from './request-id.js';
import type { RequestTracer } from './request-tracer.js';
import { setSecurityHeaders } from './security-headers.js';
import { answerInJson, refuseWithoutHost, SERVER_LIMITS, toServerOptions } from './server-limits.js';
import type { ServerLimits } from './server-limits.js';

/** Answers a request, or says by false that it does not. */
export type FirstChoice = (request: Request, response: Response) => boolean;

/**
 * Nest on Express, with strict routing, without Express's own parsing, and with the limits of this service
 * on the connections. On Node 20 and 22 Express spends most of a request changing the prototypes of request
 * and response; here the server creates them with the right ones, so that the change is none.
 */
export class FastExpressAdapter extends ExpressAdapter {
  #firstChoice: FirstChoice | undefined;

  /** @param tracer null: requests are not traced */
  constructor(
    private readonly limits: ServerLimits = SERVER_LIMITS,
    private readonly tracer: RequestTracer | null = null,
  ) {
    super(createExpress());
  }

  /** Offers every request to this one before Express gets it. */
  offerFirst(choice: FirstChoice): void {
    this.#firstChoice = choice;
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    class Incoming extends IncomingMessage {}
    class Reply<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {}
    Object.setPrototypeOf(Incoming.prototype, app.request);
    Object.setPrototypeOf(Reply.prototype, app.response);
    // Express offers `query` as a getter only; here the guard that reads it sets it.
    Object.defineProperty(Incoming.prototype, 'query', { value: {}, writable: true });
    Object.assign(app, { request: Incoming.prototype, response: Reply.prototype });
    const options = { ...toServerOptions(this.limits), IncomingMessage: Incoming, ServerResponse: Reply };
    this.httpServer = createServer(options);
    this.httpServer.on('request', (request: Request, response: Response) => {
      const answer = (): void => {
        setSecurityHeaders(response);
        if (refuseWithoutHost(request, response)) return;
        if (this.#firstChoice?.(request, response) !== true) app(request, response);
      };
      withRequestId(request, response, answer, this.tracer);
    });
    answerInJson(this.httpServer, this.limits);
  }

  /** Sends JSON in one piece with its length, and nothing as nothing; leaves everything else to Express. */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (body === undefined || body === null) {
      if (statusCode !== undefined) response.statusCode = statusCode;
      return response.end();
    }
    if (!isPlainJson(body) || response.hasHeader('Content-Type')) {
      return super.reply(response, body, statusCode);
    }
    if (statusCode !== undefined) response.statusCode = statusCode;
    const text = JSON.stringify(body);
    response.setHeader('Content-Type', JSON_TYPE);
    response.setHeader('Content-Length', Buffer.byteLength(text));
    return response.end(text);
  }
}

function isPlainJson(body: unknown): boolean {
  return (
    typeof body === 'object' && body !== null && !(body instanceof StreamableFile) && !(body instanceof Error)
  );
}

/** Settings must be in place before the adapter adds its first middleware: that creates the router. */
function createExpress(): Express {
  const app = express();
  app.enable('case sensitive routing');
  app.enable('strict routing');
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  return app;
}
