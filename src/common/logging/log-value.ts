import { escapeUnsafe } from '@longshore/common/json/text';

/** Longest text kept of one value, in UTF-16 units. */
const MAX_TEXT = 8 * 1024;
const MAX_DEPTH = 6;
const MAX_ENTRIES = 100;

const SECRET_NAME = /(?:password|passwd|secret|authorization|api[-_]?keys?|cookie)$/i;

/** A value that can be written as JSON: secrets masked, size bounded. */
export type LogValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly LogValue[]
  | { readonly [name: string]: LogValue };

/** Makes a text fit for a log line: passwords in connection strings masked, unsafe characters escaped, cut to 8 Ki. */
export function toLogText(text: string): string {
  // Twice the limit is masked, so that the cut cannot fall between a password and the "@" behind it.
  const masked = maskPasswords(text.slice(0, 2 * MAX_TEXT));
  const safe = escapeUnsafe(masked.slice(0, MAX_TEXT));
  const removed = text.length - MAX_TEXT;
  return removed > 0 ? `${safe}... (${removed} more)` : safe;
}

/** Copies any value into one that is safe to log: bounded in depth, entries and length; errors by type, message, stack. */
export function toLogValue(value: unknown, depth = 0): LogValue {
  if (value === null || value === undefined || typeof value === 'boolean') return value;
  if (typeof value === 'string') return toLogText(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'function') return '[function]';
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (depth >= MAX_DEPTH) return '[...]';
  if (value instanceof Error) return toLogError(value, depth);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.slice(0, MAX_ENTRIES).map((entry) => toLogValue(entry, depth + 1));
  if (value instanceof Map || value instanceof Set) return toLogValue([...value], depth);
  return toLogObject(value, depth);
}

function maskPasswords(text: string): string {
  // A password may hold "/" or ":"; it ends at the last "@" before white space.
  const masked = text.includes('://')
    ? text.replaceAll(/:\/\/([^\s/:@]{0,256}):[^\s]{0,512}@/g, '://$1:***@')
    : text;
  return masked.replaceAll(/\b(password|pwd)=[^\s&'"]{1,512}/gi, '$1=***');
}

/** Other properties of an error (query parameters, requests) are not logged. */
function toLogError(error: Error, depth: number): LogValue {
  const code: unknown = 'code' in error ? error.code : undefined;
  return {
    type: toLogText(error.name !== 'Error' ? error.name : error.constructor.name),
    message: toLogText(error.message),
    stack: error.stack === undefined ? undefined : toLogText(error.stack),
    ...(typeof code === 'string' ? { code: toLogText(code) } : {}),
    ...(error.cause === undefined ? {} : { cause: toLogValue(error.cause, depth + 1) }),
    ...(error instanceof AggregateError ? { errors: toLogValue(error.errors, depth + 1) } : {}),
  };
}

function toLogObject(value: object, depth: number): LogValue {
  const result: Record<string, LogValue> = {};
  for (const [name, entry] of Object.entries(value).slice(0, MAX_ENTRIES)) {
    const isSecret = SECRET_NAME.test(name) && entry !== undefined && entry !== null;
    result[toLogText(name).replaceAll('\n', ' ')] = isSecret ? '***' : toLogValue(entry, depth + 1);
  }
  return result;
}
