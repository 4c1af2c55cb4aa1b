import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiResponse, type ApiResponseNoStatusOptions } from '@nestjs/swagger';

/** The body of every error answer. */
export class ErrorDto {
  /** What went wrong, in one sentence. */
  @ApiProperty({ type: 'string', example: 'Request validation failed' })
  detail: string;

  /** One line per field or input that was refused. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, required: false })
  errors?: string[];
}

const MEANINGS = {
  400: 'The request breaks a rule of its shape, or the run does not accept it.',
  401: 'The API key is missing or wrong.',
  403: 'The API key lacks the scope.',
  404: 'There is no such thing.',
  409: 'The request conflicts with the present state.',
  410: 'The events asked for are no longer kept.',
  413: 'The body is larger than the service takes.',
  415: 'The body is not application/json in UTF-8.',
  429: 'Too many requests; `Retry-After` says when to come again.',
  503: 'The service cannot answer now; `Retry-After` says when to come again.',
} as const;

const RETRY_AFTER = {
  'Retry-After': { required: true, description: 'Whole seconds', schema: { type: 'integer', minimum: 1 } },
} as const;

/** Headers that come with every error of a status. */
const HEADERS: Readonly<Partial<Record<number, ApiResponseNoStatusOptions['headers']>>> = {
  401: { 'WWW-Authenticate': { required: true, schema: { type: 'string' } } },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
};

/** Documents the error answers of a route, each with the one error body. */
export function ApiErrors(...statuses: (keyof typeof MEANINGS)[]): MethodDecorator & ClassDecorator {
  return applyDecorators(
    ...statuses.map((status) => {
      const headers = HEADERS[status];
      const answer = { status, description: MEANINGS[status], type: ErrorDto };
      return ApiResponse(headers ? { ...answer, headers } : answer);
    }),
  );
}
