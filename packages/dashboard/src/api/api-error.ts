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
  return error instanceof Error ? error.message : String(error);
}
