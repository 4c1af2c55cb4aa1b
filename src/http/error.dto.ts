import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiResponse } from '@nestjs/swagger';

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

/** Documents the error answers of a route, each with the one error body. */
export function ApiErrors(...statuses: (keyof typeof MEANINGS)[]): MethodDecorator & ClassDecorator {
  return applyDecorators(
    ...statuses.map((status) => ApiResponse({ status, description: MEANINGS[status], type: ErrorDto })),
  );
}
