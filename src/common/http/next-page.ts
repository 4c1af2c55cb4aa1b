import { applyDecorators, type Type } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import type { Response } from 'express';

/** Documents a list that may end early: see `linkNextPage`. */
export function ApiPage(type: Type, description: string): MethodDecorator {
  return applyDecorators(
    ApiOkResponse({
      type: [type],
      description,
      headers: {
        Link: {
          description: 'On every page but the last: `<URL of the next page>; rel="next"` (RFC 8288).',
          schema: { type: 'string' },
        },
      },
    }),
  );
}

/** Says in the header `Link` that the list goes on. @param after of the next page; other parameters stay */
export function linkNextPage(response: Response, after: string | number): void {
  const url = new URL(response.req.originalUrl, 'http://service');
  url.searchParams.set('after', String(after));
  response.setHeader('Link', `<${url.pathname}${url.search}>; rel="next"`);
}
