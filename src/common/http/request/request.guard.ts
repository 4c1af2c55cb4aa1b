import { UnsupportedMediaType, BodyTooLarge, InvalidRequest, NotFound } from '../../errors/domain-error.js';
import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request, Response } from 'express';
import { changeable } from '@longshore/common/json/json-text';
import { JsonRefused, readJson } from '@longshore/common/json/read-json';
import { Settings } from '../../../config/settings.js';
import { Problems, unknownParameter } from '../validation/problems.js';
import { BodyQuota } from './body-quota.js';
import { readBody } from './body-reader.js';
import { inputsOf, type HandlerInputs } from './handler-inputs.js';

const CHARSET = /^charset\s*=\s*"?utf-?8"?$/i;
const PARAMETER = /^[\w!#$%&'*+.^`|~-]+\s*=\s*(?:[\w!#$%&'*+.^`|~-]+|"[^"]*")$/;

/** Requires that a body is declared as JSON in plain UTF-8. @throws UnsupportedMediaType */
export function requireJson(contentType: string | undefined, contentEncoding: string | undefined): void {
  if (!isPlain(contentEncoding)) {
    throw new UnsupportedMediaType('Request body must not have a content encoding');
  }
  if (!isJson(contentType, contentEncoding)) throw new UnsupportedMediaType();
}

/** Whether a body is declared as JSON in plain UTF-8. */
export function isJson(contentType: string | undefined, contentEncoding: string | undefined): boolean {
  if (contentType === undefined || !isPlain(contentEncoding)) return false;
  if (contentType === 'application/json') return true;
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim());
  return (
    type?.toLowerCase() === 'application/json' &&
    parameters.every((parameter) => (/^charset\b/i.test(parameter) ? CHARSET : PARAMETER).test(parameter))
  );
}

function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding.trim().toLowerCase() === 'identity';
}

/**
 * Reads the body and the query that the handler of a route takes, and refuses bodies that are too large (413), not JSON
 * (415), over the quota (429, 503) or malformed (400), malformed queries and undeclared query parameters (400), and NUL characters in the path (404).
 * It runs after the guards of authentication, so that their refusals come first, and before guards of other modules.
 */
@Injectable()
export class RequestGuard implements CanActivate {
  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxBodyBytes'>,
    private readonly quota: BodyQuota,
  ) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const inputs = inputsOf(context.getClass(), context.getHandler());
    const { maxBodyBytes } = this.settings;
    checkPath(request);
    if (inputs.body === 'streamed') return true;
    if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw new BodyTooLarge(maxBodyBytes);
    if (isBodyToRead(request, inputs)) return this.#readBody(request, http.getResponse<Response>(), inputs);
    checkQuery(request, inputs);
    return true;
  }

  async #readBody(request: Request, response: Response, inputs: HandlerInputs): Promise<boolean> {
    requireJson(request.headers['content-type'], request.headers['content-encoding']);
    const reserve = this.quota.reservation(request, response);
    const bytes = await readBody(request, response, this.settings.maxBodyBytes, reserve);
    request.body = parseBody(bytes);
    if (inputs.rawBody) Object.assign(request, { rawBody: bytes });
    checkQuery(request, inputs);
    return true;
  }
}

function checkPath({ url }: Request): void {
  const escape = url.indexOf('%00');
  if (escape < 0) return;
  const query = url.indexOf('?');
  if (query < 0 || escape < query) throw new NotFound();
}

function isBodyToRead(request: Request, { body, multipart }: HandlerInputs): boolean {
  const { headers } = request;
  if (multipart && headers['content-type']?.startsWith('multipart/form-data') === true) return false;
  // A body parser that an application adds as middleware has read the body already.
  if (body === 'none' || request.body !== undefined) return false;
  if (body === 'required') return true;
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return hasBody && isJson(headers['content-type'], headers['content-encoding']);
}

/** The object of a body may be changed by guards and pipes. */
function parseBody(bytes: Uint8Array): unknown {
  if (bytes.length === 0) throw new InvalidRequest('Request body is empty');
  try {
    return changeable(readJson(bytes));
  } catch (error) {
    if (error instanceof JsonRefused) throw new InvalidRequest(`Malformed JSON body: ${error.message}`);
    throw error;
  }
}

/** @throws InvalidRequest when the query is malformed or has a parameter that the handler does not declare */
function checkQuery(request: Request, { query: names }: HandlerInputs): void {
  if (names === 'ignored' || !request.url.includes('?')) return;
  // Reading the query parses it.
  const { query } = request;
  if (names === true) return;
  const problems = new Problems();
  for (const name of Object.keys(query)) if (!names.has(name)) problems.add(unknownParameter(name, names));
  problems.throwIfAny();
}
