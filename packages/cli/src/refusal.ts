import { isJsonObject } from '@longshore/common/json/json-value';
import { CliError, EXIT } from './cli-error.js';
import { oneLine } from './style.js';

/** Answers after which the same request may be answered: too early, too often, not now. */
const LATER: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/** Whether the service may answer the same request later. */
export function answersLater(status: number): boolean {
  return LATER.has(status);
}

/** An error body of the API on one line: its detail, and behind it every single error. */
export function refusalText(body: unknown): string | undefined {
  if (!isJsonObject(body) || typeof body['detail'] !== 'string') return undefined;
  const errors = Array.isArray(body['errors']) ? body['errors'] : [];
  const said = errors.filter((error) => typeof error === 'string').join('; ');
  return oneLine(said === '' ? body['detail'] : `${body['detail']}: ${said}`);
}

/** What to say of an answer that is no success, and with which code to end. */
export function refusalOf(body: unknown, { status }: Pick<Response, 'status'>, url: string): CliError {
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
  return new CliError(answersLater(status) ? EXIT.unreachable : EXIT.failed, said);
}
