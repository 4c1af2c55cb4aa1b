import { requestText } from './raw-http.js';

/** A request, the status and detail it must be refused with, and the lines of `errors`. */
export type HostileRequest = readonly [
  title: string,
  request: string | Uint8Array,
  status: number,
  detail: string | RegExp,
  errors?: readonly string[],
];

export const JSON_HEADER = { 'Content-Type': 'application/json' };

/** Requests, by their titles, that are refused alike. */
export function refused(
  status: number,
  detail: string | RegExp,
  requests: Readonly<Record<string, string | Uint8Array>>,
  errors?: readonly string[],
): HostileRequest[] {
  return Object.entries(requests).map(([title, request]) =>
    errors ? [title, request, status, detail, errors] : [title, request, status, detail],
  );
}

/** Requests that break the same rule of a field. */
export function invalid(error: string, requests: Readonly<Record<string, string>>): HostileRequest[] {
  return refused(400, 'Request validation failed', requests, [error]);
}

/** A POST of a JSON text to the route that takes a body. */
export function post(body: string, headers: Record<string, string> = {}): string {
  return requestText('POST', '/echo', { ...JSON_HEADER, ...headers }, body);
}

/** The same with a body of arbitrary bytes. */
export function postBytes(...parts: (string | number[])[]): Uint8Array {
  const body = Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))),
  );
  const head = requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': String(body.length) });
  return Buffer.concat([Buffer.from(head), body]);
}

/** The same in chunks as they stand on the wire. */
export function postChunks(chunks: string): string {
  return `${requestText('POST', '/echo', { ...JSON_HEADER, 'Transfer-Encoding': 'chunked' })}${chunks}`;
}

export function get(target: string): string {
  return requestText('GET', target);
}

/** A body of so many levels of objects, its own one included. */
export function nested(levels: number): string {
  return `{"image":"a","inputs":${'{"a":'.repeat(levels - 2)}{}${'}'.repeat(levels - 2)}}`;
}
