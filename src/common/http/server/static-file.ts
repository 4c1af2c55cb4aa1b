import { createHash } from 'node:crypto';
import { ServerResponse } from 'node:http';
import { extname } from 'node:path';
import type { Request, Response } from 'express';

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.yaml': 'text/yaml; charset=utf-8',
};

export type Encoding = 'br' | 'gzip' | 'identity';

/** A file that is served from memory, so that a request opens nothing and copies nothing. */
export interface StaticFile {
  readonly mediaType: string;
  readonly cacheControl: string;
  /** Hash of the plain content. */
  readonly hash: string;
  /** Its content by encoding, smallest first; `identity` is always there. */
  readonly bodies: ReadonlyMap<Encoding, Buffer>;
}

/** Whether files with this name are served. */
export function isServable(name: string): boolean {
  return extname(name) in MEDIA_TYPES;
}

/** @param name its extension decides the media type */
export function staticFile(
  name: string,
  bodies: ReadonlyMap<Encoding, Buffer>,
  cacheControl = 'no-cache',
): StaticFile {
  const hash = createHash('sha256')
    .update(bodies.get('identity') ?? '')
    .digest('base64url')
    .slice(0, 22);
  return { mediaType: MEDIA_TYPES[extname(name)] ?? 'application/octet-stream', cacheControl, hash, bodies };
}

/** Sends a file, or 304 to a client that has it. */
export function sendStaticFile(request: Request, response: Response, file: StaticFile): void {
  // The smallest that the client accepts: browsers list gzip first.
  const encoding = [...file.bodies.keys()].find((known) => request.acceptsEncodings(known)) ?? 'identity';
  response.setHeader('Cache-Control', file.cacheControl);
  response.setHeader('ETag', `"${file.hash}-${encoding}"`);
  response.setHeader('Vary', 'Accept-Encoding');
  if (request.fresh) {
    response.status(304).end();
    return;
  }
  const body = file.bodies.get(encoding);
  response.setHeader('Content-Type', file.mediaType);
  if (encoding !== 'identity') response.setHeader('Content-Encoding', encoding);
  response.setHeader('Content-Length', body?.length ?? 0);
  // All responses share the buffer: it does not count as memory of this one (see UnreadResponses).
  // oxlint-disable-next-line typescript/unbound-method -- it is applied to the response
  Reflect.apply(ServerResponse.prototype.end, response, [body]);
}
