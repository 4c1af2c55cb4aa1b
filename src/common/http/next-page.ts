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
          description: 'On every page but the last: `<?QUERY of the next page>; rel="next"` (RFC 8288).',
          schema: { type: 'string' },
        },
      },
    }),
  );
}

/** Says in the header `Link` that the list goes on. @param after of the next page; other parameters stay */
export function linkNextPage(response: Response, after: string | number): void {
  const { searchParams } = new URL(response.req.originalUrl, 'http://service');
  searchParams.set('after', String(after));
  // Relative: a proxy may add a prefix to the path.
  response.setHeader('Link', `<?${searchParams.toString()}>; rel="next"`);
}
