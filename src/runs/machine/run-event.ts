import type { JsonObject } from '@longshore/common/json/json-value';
import {
  EVENT_TYPE_PATTERN,
  eventType,
  problemOf,
  type CancelCause,
  type EventEffect,
} from './event-types.js';

export interface RunEvent {
  readonly type: string;
  readonly msg: string | number;
  readonly payload: JsonObject;
  readonly effect: EventEffect;
  /** Id of the API key that sent it; undefined: the service itself. */
  readonly sender?: string | undefined;
}

export interface ReportedEvent {
  readonly type: string;
  readonly msg: string | number;
  readonly payload?: JsonObject | undefined;
}

/** Validates an event by the rules of its type. @returns the event with its effect, or one line per invalid field */
export function readEvent(reported: ReportedEvent): RunEvent | { readonly problems: readonly string[] } {
  const { type, msg, payload = {} } = reported;
  if (type === 'RECLAIMED') return { problems: ['type RECLAIMED is recorded by the service only'] };
  if (!EVENT_TYPE_PATTERN.test(type))
    return { problems: ['type must be 1 to 64 characters of A-Z, 0-9 and _, starting with a letter'] };
  const declared = eventType(type);
  if (declared === undefined) return { type, msg, payload, effect: { kind: 'NOTE' } };
  const problems: string[] = [];
  const given: Record<string, JsonObject[string]> = {};
  const problem = declared.msg && problemOf(declared.msg, msg);
  if (problem !== undefined) problems.push(`msg ${problem}`);
  for (const [name, schema] of Object.entries(declared.payload)) {
    const value = Object.hasOwn(payload, name) ? (payload[name] ?? undefined) : undefined;
    if (value === undefined && declared.required?.includes(name) !== true) continue;
    const wrong = problemOf(schema, value);
    if (wrong !== undefined) problems.push(`payload.${name} ${wrong}`);
    else if (value !== undefined) given[name] = value;
  }
  return problems.length > 0 ? { problems } : { type, msg, payload, effect: declared.effect(given, msg) };
}

/** The event that POST /runs/{id}/cancel records; the reason is kept with the run. */
export function userCancel(reason?: string): RunEvent {
  return { type: 'CANCELLED', msg: 'Cancelled by user', payload: {}, effect: { kind: 'CANCELLED', reason } };
}

/** The event by which the service cancels a run by itself. @param reason for people; kept with the run */
export function serviceCancel(cause: CancelCause, reason: string, payload: JsonObject = {}): RunEvent {
  return {
    type: 'CANCELLED',
    msg: reason,
    payload: { cause, ...payload },
    effect: { kind: 'CANCELLED', reason, cause },
  };
}

/** The event that POST /runs/{id}/retry records. */
export const MANUAL_RETRY: RunEvent = {
  type: 'RETRIED',
  msg: 'Manual retry',
  payload: { force: true },
  effect: { kind: 'RETRIED', force: true },
};

/** The same with `dependents=true`. */
export const RETRY_WITH_DEPENDENTS: RunEvent = {
  ...MANUAL_RETRY,
  effect: { kind: 'RETRIED', force: true, reopens: true },
};
