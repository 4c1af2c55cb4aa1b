import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';

/** Types of events that a worker may report before STARTED. */
export const BEFORE_START: readonly string[] = ['SUBMITTED', 'PREPARING'];

/** One request of a worker and what became of it, as the proxy saw it. */
export interface Exchange {
  /** Milliseconds of a clock that never goes back. */
  readonly atMs: number;
  readonly method: string;
  /** Decoded, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  /** The JSON body; undefined when there is none, or no JSON. */
  readonly body: unknown;
  /** The service's answer; null when the request never reached it, or has no answer yet. */
  answer: { readonly status: number; readonly body: unknown; readonly retryAfterS: number } | null;
  /** Whether the worker got the answer. */
  delivered: boolean;
  /** When the answer was sent or the connection cut, on the clock of `atMs`; null while neither was done. */
  doneAtMs: number | null;
  /** When the worker hung up without waiting for the answer, on the clock of `atMs`; null when it did not. */
  hungUpAtMs: number | null;
}

/** What a request is about, as far as the kit tells them apart. */
export type ExchangeKind = 'heartbeat' | 'claim' | 'event' | 'run' | 'secrets' | 'log' | 'other';

/** Tells what a request is about. */
export function kindOf({ method, path }: Exchange): ExchangeKind {
  if (method === 'POST' && path === '/workers/heartbeat') return 'heartbeat';
  if (method === 'POST' && /^\/workers\/.+\/claim$/.test(path)) return 'claim';
  if (method === 'POST' && /^\/runs\/[^/]+\/events$/.test(path)) return 'event';
  if (method === 'GET' && /^\/runs\/[^/]+$/.test(path)) return 'run';
  if (method === 'GET' && /^\/runs\/[^/]+\/secrets$/.test(path)) return 'secrets';
  if (method === 'PUT' && /^\/runs\/[^/]+\/logs\/[^/]+$/.test(path)) return 'log';
  return 'other';
}

/** The run that the path names; null when it names none. */
export function runOf({ path }: Exchange): string | null {
  return /^\/runs\/([^/]+)/.exec(path)?.[1] ?? null;
}

/** Type of the reported event; null for any other request. */
export function eventTypeOf(exchange: Exchange): string | null {
  if (kindOf(exchange) !== 'event' || !isJsonObject(exchange.body)) return null;
  const { type } = exchange.body;
  return typeof type === 'string' ? type : null;
}

/** Payload of the reported event; empty for any other request, and without one. */
export function payloadOf(exchange: Exchange): JsonObject {
  if (eventTypeOf(exchange) === null || !isJsonObject(exchange.body)) return {};
  const { payload } = exchange.body;
  return isJsonObject(payload) ? payload : {};
}

/** Whether it asks for the run. */
export function isPoll(exchange: Exchange, runId: string): boolean {
  return kindOf(exchange) === 'run' && runOf(exchange) === runId;
}

/** Ids of the runs that a claim's answer hands out; empty for any other request. */
export function claimedRuns(exchange: Exchange): string[] {
  if (kindOf(exchange) !== 'claim' || exchange.answer?.status !== 200) return [];
  return idsIn(exchange.answer.body, 'ops');
}

/** Ids of the runs that a heartbeat names. */
export function namedRuns(exchange: Exchange): string[] {
  return kindOf(exchange) === 'heartbeat' ? idsIn(exchange.body, 'running_ops') : [];
}

/** Capabilities that a heartbeat announces. */
export function capabilitiesOf(heartbeat: Exchange): unknown[] {
  const named = isJsonObject(heartbeat.body) ? heartbeat.body['capabilities'] : null;
  return Array.isArray(named) ? named : [];
}

/** Whether a heartbeat is a launcher's. */
export function isOfLauncher({ body }: Exchange): boolean {
  return isJsonObject(body) && isJsonObject(body['engine']);
}

/** For how long a heartbeat says that its worker will be away, in seconds; null: it does not say so. */
export function awaySecondsOf({ body }: Exchange): number | null {
  const seconds = isJsonObject(body) ? body['away_s'] : null;
  return typeof seconds === 'number' ? seconds : null;
}

/** A header as one text; undefined when it was not sent. */
export function headerOf({ headers }: Exchange, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

/**
 * Gives one item after another for the requests about an event type or, without items for it, a kind; then null, as for all
 * other requests.
 */
export function inOrder<T>(items: Readonly<Record<string, readonly T[]>>): (asked: Exchange) => T | null {
  const counts = new Map<string, number>();
  return (asked) => {
    const about = [eventTypeOf(asked) ?? '', kindOf(asked)].find((name) => Object.hasOwn(items, name)) ?? '';
    const count = counts.get(about) ?? 0;
    counts.set(about, count + 1);
    return items[about]?.[count] ?? null;
  };
}

/** An exchange in a few words. */
export function describeExchange(exchange: Exchange): string {
  const about = eventTypeOf(exchange) ?? `${exchange.method} ${exchange.path}`;
  const { answer, delivered } = exchange;
  if (answer === null) return `${about}: no answer`;
  return `${about}: ${answer.status}${delivered ? '' : ', answer lost'}`;
}

function idsIn(body: unknown, field: string): string[] {
  const list = isJsonObject(body) ? body[field] : null;
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown) =>
    isJsonObject(item) && typeof item['id'] === 'string' ? [item['id']] : [],
  );
}
