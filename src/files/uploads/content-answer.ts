import { applyDecorators, Header } from '@nestjs/common';
import { ApiFoundResponse, ApiGoneResponse, ApiOkResponse } from '@nestjs/swagger';
import type { Response } from 'express';
import { ApiErrors, ErrorDto, NO_STORE_HEADER } from '../../common/http/errors/error.dto.js';
import { FileUrlDto } from './file.dto.js';

/** The route answers with {@link answerContent}. @param description what is at the URL */
export function ApiContent(description: string): MethodDecorator {
  return applyDecorators(
    Header('Cache-Control', 'no-store'),
    ApiFoundResponse({
      description,
      headers: {
        ...NO_STORE_HEADER,
        Location: { required: true, description: 'The URL.', schema: { type: 'string' } },
      },
    }),
    ApiOkResponse({
      type: FileUrlDto,
      description: 'With `redirect=false`: the URL.',
      headers: NO_STORE_HEADER,
    }),
    ApiErrors(409),
    ApiGoneResponse({ description: 'The bytes were removed; `detail` names the time.', type: ErrorDto }),
  );
}

/** A redirect to where the content is, or that place. */
export function answerContent(
  response: Response,
  found: FileUrlDto,
  redirect: boolean,
): FileUrlDto | undefined {
  if (!redirect) return found;
  response.status(302).setHeader('Location', found.url);
  return undefined;
}
