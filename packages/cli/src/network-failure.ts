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

/** Failures of the encryption, which comes before the request. */
const NOT_TRUSTED = /CERT|TLS|SSL|EPROTO/;

/** Whether the request that failed cannot have reached the service. */
export function hasNeverLeft(error: unknown): boolean {
  const cause = causeOf(error);
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return causes.length > 0 && causes.every(isBeforeRequest);
}

function isBeforeRequest(cause: unknown): boolean {
  const code = codeOf(cause);
  // Without a code fetch itself will have nothing to do with the address.
  if (code === '') return !(cause instanceof Error && cause.name === 'TimeoutError');
  return NEVER_LEFT.has(code) || NOT_TRUSTED.test(code);
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
