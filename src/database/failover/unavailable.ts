import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '@longshore/common/backoff';
import { QueryRunnerAlreadyReleasedError, QueryRunnerProviderAlreadyReleasedError } from 'typeorm';
import { errorText } from '@longshore/common/errors';

/** The database is unreachable; nothing was sent to it. */
export class DatabaseUnreachable extends Error {
  constructor(cause: unknown) {
    super(`the database is unreachable: ${errorText(cause)}`);
  }
}

/** Codes of Node.js for an unreachable server. */
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

/** Prefixes of the messages of driver errors that have no code. */
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
 * SQLSTATE classes: connection exceptions, insufficient resources, operator intervention (shutdown, start-up, statement
 * timeout), system errors (disk), internal errors.
 */
const SERVER_CLASSES: ReadonlySet<string> = new Set(['08', '53', '57', '58', 'XX']);

/** SQLSTATEs of a disk that is full or broken. */
const REFUSED_WRITES: ReadonlySet<string> = new Set(['53100', '58030']);

/** More SQLSTATEs: the server is read-only (a standby, or failing); a lock is not available. */
const SERVER_STATES: ReadonlySet<string> = new Set(['25006', '55P03']);

/** Errors of connections that were being opened: no statement is to blame, whatever their code. */
const whileConnecting = new WeakSet<object>();

/** Remembers that the error came while a connection was opened. @returns the error */
export function markConnecting(error: unknown): unknown {
  if (typeof error === 'object' && error !== null) whileConnecting.add(error);
  return error;
}

/**
 * Whether the database failed for reasons unrelated to the statement: it is unreachable, starting or stopping, refuses
 * connections, is out of connections, memory, disk or room for notifications, or too slow. The statement may have been executed.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  return (
    isTransient(error) ||
    sources(error).some((source) => whileConnecting.has(source) || isNotificationQueueFull(source))
  );
}

/**
 * Whether the server answers, but refuses all writes (its disk or its queue of notifications is full) or all new connections (the
 * password, the database or its tables are not what they were).
 */
export function isRefusal(error: unknown): boolean {
  return sources(error).some((source) => {
    if (isNotificationQueueFull(source)) return true;
    const code = codeOf(source);
    if (!isSqlState(code)) return false;
    return REFUSED_WRITES.has(code) || (whileConnecting.has(source) && !isTransient(source));
  });
}

/** Whether a session has kept the queue of notifications from being emptied, and nothing more can be committed. */
export function isNotificationQueueFull(error: unknown): boolean {
  // Rows that are too large have the same code. The text depends on the language of the server.
  return sources(error).some(
    (source) => codeOf(source) === '54000' && 'routine' in source && source.routine === 'PreCommit_Notify',
  );
}

/** Whether the database may be available a moment later without anybody's help. */
export function isTransient(error: unknown): boolean {
  return sources(error).some((source) => {
    if (source instanceof DatabaseUnreachable) return true;
    const code = codeOf(source);
    if (code !== undefined) {
      if (NETWORK_CODES.has(code)) return true;
      if (isSqlState(code)) return SERVER_CLASSES.has(code.slice(0, 2)) || SERVER_STATES.has(code);
    }
    // TypeORM releases a query runner whose connection breaks between two statements of a transaction.
    if (source instanceof QueryRunnerAlreadyReleasedError) return true;
    if (source instanceof QueryRunnerProviderAlreadyReleasedError) return true;
    return source instanceof Error && DRIVER_MESSAGES.some((message) => source.message.startsWith(message));
  });
}

/** Whether the server rejected a write because it is a standby or read-only. */
export function isReadOnly(error: unknown): boolean {
  return sources(error).some((source) => codeOf(source) === '25006');
}

/** Whether a statement, or the lock it waited for, timed out; the server works. */
export function isStatementGivenUp(error: unknown): boolean {
  return sources(error).some((source) => ['57014', '55P03'].includes(codeOf(source) ?? ''));
}

/** Whether the database rejected a value (SQLSTATE class 22), for example a text with a NUL character. */
export function isBadValue(error: unknown): boolean {
  return sources(error).some(
    (source) => isSqlState(codeOf(source)) && codeOf(source)?.startsWith('22') === true,
  );
}

/** Whether the transaction was rolled back because of a serialization failure or deadlock. */
export function isRetryable(error: unknown): boolean {
  return sources(error).some((source) => ['40001', '40P01'].includes(codeOf(source) ?? ''));
}

/** Whether the statement violated a unique constraint or a foreign key: others have written its row, or removed what it refers to. */
export function violatesKey(error: unknown): boolean {
  return sources(error).some((source) => ['23505', '23503'].includes(codeOf(source) ?? ''));
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

/** The SQLSTATE or Node.js code of an error. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

function isSqlState(code: string | undefined): code is string {
  // Node's codes such as EPIPE have five letters too, but no digit.
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code);
}

/**
 * Retries a read until the database is reachable again, after pauses in milliseconds that double up to the longest.
 * @returns undefined when the signal aborted
 * @throws what `read` throws for another reason
 */
export async function retryWhileUnavailable<T>(
  read: () => Promise<T>,
  { retryMs, longestRetryMs }: { readonly retryMs: number; readonly longestRetryMs: number },
  signal: AbortSignal,
): Promise<T | undefined> {
  for (const backoff = new Backoff({ firstMs: retryMs, maxMs: longestRetryMs }); !signal.aborted;) {
    try {
      return await read();
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error;
    }
    await sleep(backoff.nextMs(), undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}
