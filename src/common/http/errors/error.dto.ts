import { applyDecorators } from '@nestjs/common';
import {
  ApiParam,
  ApiProperty,
  ApiResponse,
  ApiSchema,
  ApiServiceUnavailableResponse,
  type ApiParamOptions,
  type ApiResponseNoStatusOptions,
} from '@nestjs/swagger';

@ApiSchema({ name: 'Error', description: 'The body of every error response.' })
export class ErrorDto {
  /** What went wrong, in one sentence. */
  @ApiProperty({ type: 'string' })
  detail: string;

  /** One line per invalid field or input. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, required: false })
  errors?: string[];
}

/** The schema of `ErrorDto` in the OpenAPI document. */
export const ERROR_SCHEMA = { $ref: '#/components/schemas/Error' } as const;

const DESCRIPTIONS = {
  400: 'The request is invalid, or the state of the resource does not allow it.',
  401: 'The API key is missing or invalid.',
  403: 'The API key lacks the required scope.',
  404: 'The resource does not exist.',
  409: 'The request conflicts with the current state.',
  410: 'The requested events are no longer stored; `detail` names a cursor to continue from.',
  413: 'The body is too large.',
  415: 'The body is not `application/json` in UTF-8.',
  429: 'Too many requests. Retry after the number of seconds in `Retry-After`.',
  503: 'The service cannot answer now. Retry after the number of seconds in `Retry-After`.',
} as const;

/** Documents the header that says when to retry. */
export const RETRY_AFTER = {
  'Retry-After': { required: true, description: 'In seconds.', schema: { type: 'integer', minimum: 1 } },
} as const;

/** Documents the header of a response that must not be cached. */
export const NO_STORE_HEADER = {
  'Cache-Control': {
    description: 'The response must not be stored.',
    schema: { type: 'string', enum: ['no-store'] },
  },
} satisfies ApiResponseNoStatusOptions['headers'];

/** Headers that come with every error response of a status. */
const HEADERS: Readonly<Partial<Record<number, ApiResponseNoStatusOptions['headers']>>> = {
  401: {
    'WWW-Authenticate': {
      required: true,
      description: 'The authentication scheme.',
      schema: { type: 'string' },
    },
  },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
};

type ErrorStatus = keyof typeof DESCRIPTIONS;

/** The error response of a status. */
function errorOf(status: ErrorStatus) {
  const headers = HEADERS[status];
  return { description: DESCRIPTIONS[status], ...(headers && { headers }) };
}

/**
 * Documents error responses of a route, each with the same body. The document has 400, 503 and, of a route with a body, 413
 * and 415 without a decorator: see `addCommonErrors`.
 */
export function ApiErrors(...statuses: ErrorStatus[]): MethodDecorator & ClassDecorator {
  return applyDecorators(
    ...statuses.map((status) => ApiResponse({ status, ...errorOf(status), type: ErrorDto })),
  );
}

/** Documents the id of a resource in the path, and the 404 response of one that does not exist. */
export function ApiResource(id: ApiParamOptions): MethodDecorator {
  return applyDecorators(ApiParam(id), ApiErrors(404));
}

/** As `ApiErrors`, in the form of the OpenAPI document. */
export function errorResponse(status: ErrorStatus) {
  return { ...errorOf(status), content: { 'application/json': { schema: ERROR_SCHEMA } } };
}

/** Documents the 403 response of a route that needs a scope. */
export function ApiScopeError(scope: string): MethodDecorator & ClassDecorator {
  const example = { detail: `API key lacks scope '${scope}'` };
  return ApiResponse({ status: 403, description: DESCRIPTIONS[403], type: ErrorDto, example });
}

/** Documents the 503 response of a route whose feature can be switched off. */
export function ApiSwitchedOffError(feature: string): MethodDecorator & ClassDecorator {
  return ApiServiceUnavailableResponse({
    description: `${DESCRIPTIONS[503]} Without \`Retry-After\`, ${feature} is switched off.`,
    type: ErrorDto,
    headers: { 'Retry-After': { ...RETRY_AFTER['Retry-After'], required: false } },
  });
}
