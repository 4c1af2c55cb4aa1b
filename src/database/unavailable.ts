import { QueryRunnerAlreadyReleasedError, QueryRunnerProviderAlreadyReleasedError } from 'typeorm';

/** The database is known to be away: nothing was sent to it. */
export class DatabaseAway extends Error {
  constructor(reason: unknown) {
    super(`the database is away: ${reason instanceof Error ? reason.message : String(reason)}`);
  }
}

/** Codes of Node's network and file errors that mean "no way to the server at the moment". */
const NETWORK_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
]);

/** Beginnings of the messages of errors that the driver raises without any code. */
const DRIVER_MESSAGES = [
  'Connection terminated',
  'Query read timeout',
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Client has encountered a connection error',
  'Client was closed and is not queryable',
  'Cannot use a pool after calling end on the pool',
  'Driver not Connected',
] as const;

/**
 * Classes of SQLSTATE: connection trouble, out of resources, operator intervention (shutting down, starting up, a
 * statement cancelled by its timeout), failures of the server's system (disk), internal errors.
 */
const SERVER_CLASSES: ReadonlySet<string> = new Set(['08', '53', '57', '58', 'XX']);

/** Single states beside the classes: the server turned read-only, as a standby or a failing one is; a lock was not to be had. */
const SERVER_STATES: ReadonlySet<string> = new Set(['25006', '55P03']);

/**
 * Whether the error means that the database could not do its work now, for reasons that have nothing to do with
 * the statement: it is away, starting, stopping, out of connections, memory or disk, or too slow. The statement
 * may or may not have been carried out. Looks through TypeORM's wrapping.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  return sources(error).some((source) => {
    if (source instanceof DatabaseAway) return true;
    const code = codeOf(source);
    if (code !== undefined) {
      if (NETWORK_CODES.has(code)) return true;
      if (isSqlState(code)) return SERVER_CLASSES.has(code.slice(0, 2)) || SERVER_STATES.has(code);
    }
    // TypeORM gives a query runner up when its connection breaks between two statements of a transaction.
    if (source instanceof QueryRunnerAlreadyReleasedError) return true;
    if (source instanceof QueryRunnerProviderAlreadyReleasedError) return true;
    return source instanceof Error && DRIVER_MESSAGES.some((message) => source.message.startsWith(message));
  });
}

/** Whether one statement was given up because it, or the lock it waited for, took too long; the server is well. */
export function isStatementGivenUp(error: unknown): boolean {
  return sources(error).some((source) => ['57014', '55P03'].includes(codeOf(source) ?? ''));
}

/** Whether the database refused a value as such (SQLSTATE class 22), for example a NUL character in a text. */
export function isBadValue(error: unknown): boolean {
  return sources(error).some(
    (source) => isSqlState(codeOf(source)) && codeOf(source)?.startsWith('22') === true,
  );
}

/** Whether the transaction lost against another one and did nothing: serialisation failure or deadlock. */
export function isRetryable(error: unknown): boolean {
  return sources(error).some((source) => ['40001', '40P01'].includes(codeOf(source) ?? ''));
}

/** Whether the statement would have made a second row where only one may be. */
export function isDuplicate(error: unknown): boolean {
  return sources(error).some((source) => codeOf(source) === '23505');
}

/** The error, what TypeORM wrapped in it, and the parts of an AggregateError (several addresses of one host). */
function sources(error: unknown): object[] {
  if (typeof error !== 'object' || error === null) return [];
  const found: object[] = [error];
  if ('driverError' in error && typeof error.driverError === 'object' && error.driverError !== null) {
    found.push(error.driverError);
  }
  if (error instanceof AggregateError) {
    found.push(...error.errors.filter((part) => typeof part === 'object' && part !== null));
  }
  return found;
}

function codeOf(error: object): string | undefined {
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function isSqlState(code: string | undefined): code is string {
  // Node's codes such as EPIPE have five letters too, but no digit.
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code);
}
