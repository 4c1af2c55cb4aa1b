import { isJsonObject } from '@longshore/common/json/json-value';
import { errorText } from '@longshore/common/errors';
import { ownCaHint } from '@longshore/common/own-ca';
import { oneLine } from '@longshore/common/shown-text';

/** Exit codes of the command line. */
export const EXIT = {
  /** Success; for a followed run: COMPLETED. */
  ok: 0,
  /** Rejected by the service; for a followed run: FAILED or CANCELLED. */
  failed: 1,
  /** Wrong arguments. */
  usage: 2,
  /** Of a plan that was only printed: it has something to do. */
  wouldChange: 2,
  /** The service does not respond, or rejects the key. */
  unreachable: 3,
  /** Ctrl-C (128 + SIGINT). */
  interrupted: 130,
  /** Standard output was closed (128 + SIGPIPE). */
  pipeClosed: 141,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the program with an exit code and one line on standard error. */
export class CliError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    /** One line, without the program's name. */
    message: string,
    /** Whether a request without a response may have been executed. */
    readonly mayHaveArrived = false,
    /** What the service says is wrong, one field each. */
    readonly problems: readonly string[] = [],
  ) {
    super(message);
    this.name = 'CliError';
  }
}

/** Wrong arguments. */
export function usageError(message: string): CliError {
  return new CliError(EXIT.usage, message);
}

/** Statuses after which the same request may succeed. */
const LATER: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/** What of a response says whether the request was refused for good. */
type RefusingResponse = Pick<Response, 'status' | 'headers'>;

/** Whether the same request may succeed later. The service's own 503 without `Retry-After` is about a feature that is not configured. */
export function isRetryable(body: unknown, { status, headers }: RefusingResponse): boolean {
  if (status === 503 && !headers.has('Retry-After')) return refusalText(body) === undefined;
  return LATER.has(status);
}

/** An error body of the API on one line: its detail, then every single error. */
export function refusalText(body: unknown): string | undefined {
  if (!isJsonObject(body) || typeof body['detail'] !== 'string') return undefined;
  const said = problemsOf(body).join('; ');
  // The specification fixes these texts of the API.
  const detail = body['detail'].replace(
    /^Op(Run|Definition) (?=')/,
    (_, kind: string) => `${kind.toLowerCase()} `,
  );
  return oneLine(said === '' ? detail : `${detail}: ${said}`);
}

/** The single errors of an error body of the API. */
function problemsOf(body: unknown): readonly string[] {
  const errors: unknown = isJsonObject(body) ? body['errors'] : undefined;
  return Array.isArray(errors) ? errors.filter((error) => typeof error === 'string') : [];
}

/** Error for a response that is not a success. */
export function refusalOf(body: unknown, response: RefusingResponse, url: string): CliError {
  const { status } = response;
  const said = refusalText(body);
  if (status === 401 || status === 403) {
    return new CliError(EXIT.unreachable, `${url} refuses the API key: ${said ?? `HTTP ${status}`}`);
  }
  if (said === undefined) {
    return new CliError(
      EXIT.unreachable,
      `${url} answers HTTP ${status}, and not as a Longshore service does`,
    );
  }
  return new CliError(
    isRetryable(body, response) ? EXIT.unreachable : EXIT.failed,
    said,
    false,
    problemsOf(body),
  );
}

/** Errors before a connection exists: the request cannot have arrived. */
const NEVER_LEFT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Reason for a missing response, on one line. `fetch` puts it into the error's cause. */
export function failureText(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'no answer in time';
  const cause = causeOf(error);
  if (cause instanceof AggregateError) return cause.errors.map(errorText).join('; ');
  return `${errorText(cause)}${ownCaHint(cause)}`;
}

/** TLS errors, which occur before the request is sent. */
const NOT_TRUSTED = /CERT|TLS|SSL|EPROTO|UNABLE_TO_VERIFY/;

/** Whether the request that failed cannot have reached the service. */
export function hasNeverLeft(error: unknown): boolean {
  const cause = causeOf(error);
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return causes.length > 0 && causes.every(isBeforeRequest);
}

function isBeforeRequest(cause: unknown): boolean {
  const code = codeOf(cause);
  // Without a code, fetch rejected the address itself.
  if (code === '') return !(cause instanceof Error && cause.name === 'TimeoutError');
  return NEVER_LEFT.has(code) || NOT_TRUSTED.test(code);
}

function causeOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? error.cause : error;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
