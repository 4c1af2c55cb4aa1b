/** Failures of a connection that was never made: the request cannot have arrived. */
const NEVER_LEFT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Why there was no answer, on one line; fetch hides it in its error's cause. */
export function failureText(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'no answer in time';
  const cause = causeOf(error);
  if (cause instanceof AggregateError) return cause.errors.map(messageOf).join('; ');
  return messageOf(cause);
}

/** Whether the request that failed cannot have reached the service. */
export function hasNeverLeft(error: unknown): boolean {
  const cause = causeOf(error);
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return causes.length > 0 && causes.every((one) => NEVER_LEFT.has(codeOf(one)));
}

function causeOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? error.cause : error;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
