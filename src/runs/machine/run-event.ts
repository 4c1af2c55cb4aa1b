import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readTimestamp } from '@longshore/common/json/read-timestamp';

/** Event types that the state machine handles; all other well-formed types are only recorded. */
export const SPECIAL_EVENT_TYPES = [
  'STARTED',
  'PROGRESS',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'RETRIED',
  'RECLAIMED',
] as const;

export const EVENT_TYPE_PATTERN = /^[A-Z][A-Z0-9_]{0,63}$/;

/** Why an attempt failed. `infrastructure`: through no fault of the run (node lost, engine unavailable, resources missing). */
export const FAILURE_CAUSES = ['exit', 'oom', 'timeout', 'image', 'error', 'infrastructure'] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

export const MAX_EXIT_CODE = 255;

const INT32_MAX = 2 ** 31 - 1;

export type EventEffect =
  | {
      readonly kind: 'STARTED';
      readonly workerId: string;
      readonly gpuId: number | null;
      /** When the container started, by the reporter's clock; null: not said. */
      readonly startedAt: Date | null;
    }
  | { readonly kind: 'PROGRESS'; readonly progress: number }
  | { readonly kind: 'COMPLETED'; readonly outputs: JsonObject | undefined; readonly times: ContainerTimes }
  | ({ readonly kind: 'FAILED'; readonly times: ContainerTimes } & Failure)
  | { readonly kind: 'CANCELLED' }
  | { readonly kind: 'RETRIED'; readonly force: boolean }
  | { readonly kind: 'NOTE' };

/** When the container of an attempt ran, by the reporter's clock; null: not said. */
export interface ContainerTimes {
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
}

/** What is known of a failed attempt. */
export interface Failure {
  readonly errorMessage: string | null;
  readonly cause: FailureCause;
  readonly exitCode: number | null;
}

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
  const { type, msg } = reported;
  const payload = reported.payload ?? {};
  const effect = effectOf(type, msg, payload);
  return Array.isArray(effect) ? { problems: effect } : { type, msg, payload, effect };
}

/** The event that POST /runs/{id}/cancel records. */
export const USER_CANCEL: RunEvent = {
  type: 'CANCELLED',
  msg: 'Cancelled by user',
  payload: {},
  effect: { kind: 'CANCELLED' },
};

/** The event that POST /runs/{id}/retry records. */
export const MANUAL_RETRY: RunEvent = {
  type: 'RETRIED',
  msg: 'Manual retry',
  payload: { force: true },
  effect: { kind: 'RETRIED', force: true },
};

function effectOf(type: string, msg: string | number, payload: JsonObject): EventEffect | string[] {
  switch (type) {
    case 'STARTED':
      return started(payload);
    case 'PROGRESS':
      return typeof msg === 'number' && Number.isInteger(msg) && msg >= 0 && msg <= 100
        ? { kind: 'PROGRESS', progress: msg }
        : ['msg must be an integer from 0 to 100'];
    case 'COMPLETED': {
      const problems: string[] = [];
      const outputs = given(payload, 'outputs');
      const times = timesIn(payload, problems);
      if (outputs === undefined || isJsonObject(outputs))
        return problems.length > 0 ? problems : { kind: 'COMPLETED', outputs, times };
      return ['payload.outputs must be an object', ...problems];
    }
    case 'FAILED':
      return failed(payload);
    case 'CANCELLED':
      return { kind: 'CANCELLED' };
    case 'RETRIED': {
      const force = given(payload, 'force');
      if (force === undefined || typeof force === 'boolean') {
        return { kind: 'RETRIED', force: force ?? false };
      }
      return ['payload.force must be a boolean'];
    }
    case 'RECLAIMED':
      return ['type RECLAIMED is recorded by the service only'];
    default:
      return EVENT_TYPE_PATTERN.test(type)
        ? { kind: 'NOTE' }
        : ['type must be 1 to 64 characters of A-Z, 0-9 and _, starting with a letter'];
  }
}

function started(payload: JsonObject): EventEffect | string[] {
  const problems: string[] = [];
  const workerId = given(payload, 'worker_id');
  const gpuId = given(payload, 'gpu_id');
  if (typeof workerId !== 'string') problems.push('payload.worker_id must be a string');
  else if (!isWorkerId(workerId)) problems.push('payload.worker_id must be of 1 to 128 characters');
  if (gpuId !== undefined && !isInt32(gpuId)) problems.push('payload.gpu_id must be an integer');
  const startedAt = timeIn(payload, 'started_at', problems);
  if (!isWorkerId(workerId) || problems.length > 0) return problems;
  return { kind: 'STARTED', workerId, gpuId: typeof gpuId === 'number' ? gpuId : null, startedAt };
}

function failed(payload: JsonObject): EventEffect | string[] {
  const problems: string[] = [];
  const errorMessage = given(payload, 'error_message') ?? null;
  const named = given(payload, 'cause') ?? 'error';
  const exitCode = given(payload, 'exit_code') ?? null;
  const cause = FAILURE_CAUSES.find((one) => one === named);
  if (errorMessage !== null && typeof errorMessage !== 'string')
    problems.push('payload.error_message must be a string');
  if (cause === undefined) problems.push(`payload.cause must be one of: ${FAILURE_CAUSES.join(', ')}`);
  if (exitCode !== null && !isExitCode(exitCode))
    problems.push(`payload.exit_code must be an integer from 0 to ${MAX_EXIT_CODE}`);
  const times = timesIn(payload, problems);
  if (problems.length > 0 || cause === undefined) return problems;
  return {
    kind: 'FAILED',
    errorMessage: typeof errorMessage === 'string' ? errorMessage : null,
    cause,
    exitCode: typeof exitCode === 'number' ? exitCode : null,
    times,
  };
}

function timesIn(payload: JsonObject, problems: string[]): ContainerTimes {
  return {
    startedAt: timeIn(payload, 'started_at', problems),
    finishedAt: timeIn(payload, 'finished_at', problems),
  };
}

/** @param problems gets one line when the field is no time */
function timeIn(payload: JsonObject, name: 'started_at' | 'finished_at', problems: string[]): Date | null {
  const value = given(payload, name);
  if (value === undefined) return null;
  const time = typeof value === 'string' ? readTimestamp(value) : null;
  if (time === null) problems.push(`payload.${name} must be an ISO 8601 date and time with a time zone`);
  return time;
}

function isExitCode(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_EXIT_CODE;
}

function isWorkerId(value: unknown): value is string {
  return typeof value === 'string' && value.length >= 1 && value.length <= 128;
}

/** The payload's own value of the key; null counts as undefined. */
function given(payload: JsonObject, key: string): JsonObject[string] | undefined {
  return Object.hasOwn(payload, key) ? (payload[key] ?? undefined) : undefined;
}

function isInt32(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= INT32_MAX;
}
