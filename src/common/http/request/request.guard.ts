import { Inject, Injectable } from '@nestjs/common';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import type { Request, Response } from 'express';
import { JsonRefused, readJson } from '@longshore/common/json/read-json';
import { readBody } from './body-reader.js';
import { BodyTooLarge, InvalidRequest, NotFound } from '../errors/domain-error.js';
import { needsOf } from './handler-inputs.js';
import type { HandlerNeeds } from './handler-inputs.js';
import { HTTP_OPTIONS } from '../http-options.js';
import type { HttpOptions } from '../http-options.js';
import { isJson, requireJson } from './media-type.js';
import { Problems, unknownParameter } from '../validation/problems.js';

/**
 * Reads the body and the query that the handler of a route takes, and refuses bodies that are too large (413), not JSON
 * (415) or malformed (400), malformed queries and undeclared query parameters (400), and NUL characters in the path (404).
 * It runs after the guards of authentication, so that their refusals come first, and before guards of other modules.
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
    if (isBodyToRead(request, needs)) return this.readBody(request, http.getResponse<Response>(), needs);
    checkQuery(request, needs);
    return true;
  }

  private checkPath({ url }: Request): void {
    const escape = url.indexOf('%00');
    if (escape < 0) return;
    const query = url.indexOf('?');
    if (query < 0 || escape < query) throw new NotFound();
  }

  private async readBody(request: Request, response: Response, needs: HandlerNeeds): Promise<boolean> {
    requireJson(request.headers['content-type'], request.headers['content-encoding']);
    const bytes = await readBody(request, response, this.options.maxBodyBytes);
    request.body = parseBody(bytes);
    if (needs.rawBody) Object.assign(request, { rawBody: bytes });
    checkQuery(request, needs);
    return true;
  }
}

function isBodyToRead(request: Request, { body, multipart }: HandlerNeeds): boolean {
  if (multipart && request.headers['content-type']?.startsWith('multipart/form-data') === true) return false;
  // A body parser that an application adds as middleware has read the body already.
  if (body === 'none' || request.body !== undefined) return false;
  return body === 'required' || hasJsonBody(request);
}

function hasJsonBody({ headers }: Request): boolean {
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return hasBody && isJson(headers['content-type'], headers['content-encoding']);
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

/** @throws InvalidRequest when the query is malformed or has a parameter that the handler does not declare */
function checkQuery(request: Request, { query: names }: HandlerNeeds): void {
  if (names === 'ignored' || !request.url.includes('?')) return;
  const { query } = request;
  if (names === true) return;
  const problems = new Problems();
  for (const name of Object.keys(query)) if (!names.has(name)) problems.add(unknownParameter(name));
  problems.throwIfAny();
}
