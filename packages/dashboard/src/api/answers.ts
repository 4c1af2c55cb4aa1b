import { errorText } from '@longshore/common/errors';

/** What a call of the client gives. */
export interface Answer<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

/**
 * The data of a call of the client: `await unwrap(api.GET('/workers'))`.
 * @throws ApiError when the service answered with an error
 * @throws Unreachable when it did not answer
 */
export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok && data !== undefined) return data;
  throw toApiError(response.status, error);
}

/**
 * The rows of a list whose pages may end early: reads on while the service names a next page.
 * @param read asks for the page behind a cursor
 * @param count rows that are enough
 */
export async function unwrapPages<T>(
  read: (cursor: { readonly after?: string }) => Promise<Answer<readonly T[]>>,
  cursorOf: (last: T) => string,
  count = Infinity,
): Promise<T[]> {
  const rows: T[] = [];
  for (;;) {
    const last = rows.at(-1);
    const answer = await read(last === undefined ? {} : { after: cursorOf(last) });
    rows.push(...(await unwrap(Promise.resolve(answer))));
    if (rows.length >= count || !answer.response.headers.has('Link')) return rows;
  }
}

/** The same for calls whose answer has no body, such as a 204. */
export async function unwrapEmpty(call: Promise<Answer<unknown>>): Promise<void> {
  const { error, response } = await call;
  if (!response.ok) throw toApiError(response.status, error);
}

/** What an error body says; bodies of proxies in between may have any shape. */
export function toApiError(status: number, body: unknown): ApiError {
  const { detail, errors }: { detail?: unknown; errors?: unknown } = Object(body);
  return new ApiError(
    status,
    typeof detail === 'string' ? detail : `The service answered with status ${status}`,
    Array.isArray(errors) ? errors.filter((line) => typeof line === 'string') : [],
  );
}

/** The service refused a request, or failed at it. */
export class ApiError extends Error {
  /**
   * @param status HTTP status
   * @param errors one line per problem, such as a field that is wrong
   */
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly errors: readonly string[] = [],
  ) {
    super(detail);
    this.name = 'ApiError';
  }
}

/** No answer came, or one that says that the service is unreachable for now. */
export class Unreachable extends Error {
  constructor(options?: ErrorOptions) {
    super('The service cannot be reached', options);
    this.name = 'Unreachable';
  }
}

/** Whether the key is the reason: unknown, expired or revoked. */
export function isKeyRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}

/** The error in words for people: what the service said, as far as it said anything. */
export function describeError(error: unknown): string {
  if (error instanceof ApiError) return [error.detail, ...error.errors].join('\n');
  return errorText(error);
}
