import { hash } from 'node:crypto';
import { applyDecorators, Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ApiHeader, ApiResponse, type ApiResponseNoStatusOptions } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { packageVersion } from '@longshore/common/settings/package-version';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { Settings } from '../../config/settings.js';
import { FeedCursors } from '../../feed/feed-cursors.js';
import type { RunVersion } from '../reading/batched-run-reads.js';

/** What a response shows of a run. */
export type Representation = 'run' | 'run without events' | 'timeline';

const MARKS: Readonly<Record<Representation, string>> = {
  run: 'r',
  'run without events': 's',
  timeline: 't',
};

/**
 * Entity tags of responses that show one run. Every change of a run updates its row, so the id of the transaction that
 * wrote the row tells its versions apart. The time of the change and the number of events, which never decrease, tell
 * apart what such an id could not: ids start again after 2^32 transactions, and in a restored database. The feed epoch
 * tells apart a database and the standby that is promoted in its place. Settings and the version of the service, which
 * change how a run is shown, are part of the tag.
 */
@Injectable()
export class RunEtags {
  readonly #service: string;

  constructor(
    private readonly cursors: FeedCursors,
    @Inject(Settings) { maxAnswerBytes }: Pick<Settings, 'maxAnswerBytes'>,
  ) {
    this.#service = hash('sha256', `${packageVersion()} ${maxAnswerBytes}`, 'base64url').slice(0, 6);
  }

  of({ writtenBy, eventCount, updatedAt }: RunVersion, shown: Representation): string {
    const epoch = this.cursors.epoch ?? '';
    return `"${this.#service}${MARKS[shown]}${epoch}.${writtenBy}.${eventCount}.${updatedAt.getTime().toString(36)}"`;
  }
}

/** Adds the entity tag to the response. Caches must compare it before every use. */
export function tagResponse(response: Response, etag: string): void {
  response.setHeader('ETag', etag);
  response.setHeader('Cache-Control', 'private, no-cache');
}

/** What proxies make of an entity tag when they compress the response: a weak one (nginx), or one with a suffix (Apache). */
const CHANGED_ETAG = /^(?:W\/)?"([^"]*?)(?:-(?:gzip|br|deflate|zstd))?"$/;

/** Whether the header `If-None-Match` names the entity tag (RFC 9110, section 13.1.2), also as a proxy has changed it. */
export function namesEtag(header: string, etag: string): boolean {
  if (header === etag) return true;
  return header.split(',').some((part) => {
    const named = part.trim();
    return named === '*' || named.replace(CHANGED_ETAG, '"$1"') === etag;
  });
}

/** Parameter: the header `If-None-Match`; undefined without one. */
export const IfNoneMatch = createHeaderDecorator(
  (_: unknown, context: ExecutionContext): string | undefined =>
    context.switchToHttp().getRequest<Request>().headers['if-none-match'],
);

/** Header of responses with an entity tag. */
export const ETAG_HEADER = {
  ETag: {
    description: 'Version of the response, for `If-None-Match`.',
    schema: { type: 'string' },
  },
} satisfies ApiResponseNoStatusOptions['headers'];

/** Documents a route that answers 304 to the entity tag of its current response. */
export function ApiConditionalGet(): MethodDecorator {
  return applyDecorators(
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description:
        '`ETag` of an earlier response: the answer is 304 without a body if nothing has changed since.',
      schema: { type: 'string' },
    }),
    ApiResponse({
      status: 304,
      description: 'Nothing has changed since the response whose `ETag` was given.',
      headers: ETAG_HEADER,
    }),
  );
}
