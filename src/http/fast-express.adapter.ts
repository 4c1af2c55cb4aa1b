import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { StreamableFile } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express from 'express';
import type { Express, Response } from 'express';
import { JSON_TYPE } from './error-answer.js';
import { requestId } from './request-id.js';
import { securityHeaders } from './security-headers.js';
import { answerInJson, requireHost, SERVER_LIMITS, toServerOptions } from './server-limits.js';
import type { ServerLimits } from './server-limits.js';

/**
 * Nest on Express, with strict routing, without Express's own parsing, and with the limits of this service
 * on the connections. On Node 20 and 22 Express spends most of a request changing the prototypes of request
 * and response; here the server creates them with the right ones, so that the change is none.
 */
export class FastExpressAdapter extends ExpressAdapter {
  constructor(private readonly limits: ServerLimits = SERVER_LIMITS) {
    super(createExpress());
    this.use(requestId);
    this.use(securityHeaders);
    this.use(requireHost);
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    class Request extends IncomingMessage {}
    class Reply<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {}
    Object.setPrototypeOf(Request.prototype, app.request);
    Object.setPrototypeOf(Reply.prototype, app.response);
    Object.assign(app, { request: Request.prototype, response: Reply.prototype });
    const options = { ...toServerOptions(this.limits), IncomingMessage: Request, ServerResponse: Reply };
    this.httpServer = createServer(options, app);
    answerInJson(this.httpServer, this.limits);
  }

  /** Sends JSON in one piece with its length; leaves everything else to Express. */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
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
