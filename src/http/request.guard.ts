import { Inject, Injectable } from '@nestjs/common';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import type { Request, Response } from 'express';
import { JsonRefused, readJson } from '../json/read-json.js';
import { readBody } from './body-reader.js';
import { BodyTooLarge, InvalidRequest, NotFound } from './domain-error.js';
import { needsOf } from './handler-needs.js';
import type { HandlerNeeds } from './handler-needs.js';
import { HTTP_OPTIONS } from './http-options.js';
import type { HttpOptions } from './http-options.js';
import { requireJson } from './media-type.js';
import { Problems, unknownParameter } from './problems.js';
import { queryOf } from './query-parser.js';

/**
 * Reads what a request carries, for every route, and refuses what does not fit: bodies too large (413),
 * not JSON (415) or malformed (400), malformed queries and parameters nobody reads (400), NUL characters
 * in the path (404). It stands behind the guards of authentication, so that their refusals come first, and
 * leaves `body` and `query` on the request for the validation pipe.
 */
@Injectable()
export class RequestGuard implements CanActivate {
  constructor(@Inject(HTTP_OPTIONS) private readonly options: HttpOptions) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const needs = needsOf(context.getClass(), context.getHandler());
    this.checkPath(request);
    if (Number(request.headers['content-length'] ?? 0) > this.options.maxBodyBytes) {
      throw new BodyTooLarge(this.options.maxBodyBytes);
    }
    if (needs.body) return this.takeBody(request, http.getResponse<Response>(), needs);
    takeQuery(request, needs);
    return true;
  }

  private checkPath({ url }: Request): void {
    const escape = url.indexOf('%00');
    if (escape < 0) return;
    const query = url.indexOf('?');
    if (query < 0 || escape < query) throw new NotFound();
  }

  private async takeBody(request: Request, response: Response, needs: HandlerNeeds): Promise<boolean> {
    requireJson(request.headers['content-type'], request.headers['content-encoding']);
    const bytes = await readBody(request, response, this.options.maxBodyBytes);
    request.body = parseBody(bytes);
    takeQuery(request, needs);
    return true;
  }
}

function parseBody(bytes: Uint8Array): unknown {
  if (bytes.length === 0) throw new InvalidRequest('Request body is empty');
  try {
    return readJson(bytes);
  } catch (error) {
    if (error instanceof JsonRefused) throw new InvalidRequest(`Malformed JSON body: ${error.message}`);
    throw error;
  }
}

function takeQuery(request: Request, needs: HandlerNeeds): void {
  if (needs.query === 'ignored') return;
  const query = queryOf(request.url);
  if (needs.query !== true) refuseOthers(query, needs.query);
  request.query = query;
}

function refuseOthers(query: Readonly<Record<string, string>>, names: ReadonlySet<string>): void {
  const problems = new Problems();
  for (const name of Object.keys(query)) if (!names.has(name)) problems.add(unknownParameter(name));
  problems.throwIfAny();
}
