import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { readInstant } from '@longshore/common/json/read-timestamp';

export const EVENT_TYPE_PATTERN = /^[A-Z][A-Z0-9_]{0,63}$/;

/** Why an attempt failed. `infrastructure`: through no fault of the run (node lost, engine unavailable, resources missing). */
export const FAILURE_CAUSES = ['exit', 'oom', 'timeout', 'image', 'error', 'infrastructure'] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

/**
 * Why the service cancelled a run. `concurrency`: by the `on_limit` of its concurrency key; `dependency`: a run or group that it waits for did
 * not end as it needs; `inputs`: values of its inputs could not be read from outputs; `max_failed`: as many members of its group have FAILED;
 * `group`: a member of its group has FAILED, or the group was cancelled.
 */
export const CANCEL_CAUSES = ['concurrency', 'dependency', 'inputs', 'max_failed', 'group'] as const;
export type CancelCause = (typeof CANCEL_CAUSES)[number];

/** Why a run ended as FAILED, or why the service cancelled it. */
export const END_CAUSES = [...FAILURE_CAUSES, ...CANCEL_CAUSES] as const;
export type EndCause = (typeof END_CAUSES)[number];

/** The state of the runs that have a cause. */
export function stateOfCause(cause: string): 'CANCELLED' | 'FAILED' {
  return CANCEL_CAUSES.some((one) => one === cause) ? 'CANCELLED' : 'FAILED';
}

export const MAX_EXIT_CODE = 255;

/**
 * What a machine may be unable to do for a time: to give GPUs, or to keep a limit of memory, CPU or processes, although its worker
 * would.
 */
export const ABILITIES = ['gpus', 'ram_limit', 'cpu_limit', 'pids_limit'] as const;
export type Ability = (typeof ABILITIES)[number];

const INT32_MAX = 2 ** 31 - 1;

/** GPUs of one worker, at most. */
export const MAX_GPUS = 64;

export type EventEffect =
  | {
      readonly kind: 'STARTED';
      readonly workerId: string;
      readonly gpuId: number | null;
      /** Empty: not said, or none. */
      readonly gpuIds: readonly number[];
      /** When the container started, by the reporter's clock; null: not said. */
      readonly startedAt: Date | null;
    }
  | { readonly kind: 'PREPARING' }
  | { readonly kind: 'PROGRESS'; readonly progress: number }
  | { readonly kind: 'COMPLETED'; readonly outputs: JsonObject | undefined; readonly times: ContainerTimes }
  | ({ readonly kind: 'FAILED'; readonly times: ContainerTimes } & Failure)
  | {
      readonly kind: 'CANCELLED';
      readonly reason?: string | undefined;
      /** Why the service cancels the run by itself. */
      readonly cause?: CancelCause;
    }
  | {
      readonly kind: 'RETRIED';
      readonly force: boolean;
      /** Whether runs are opened again, if it completes, that its earlier end cancelled. */
      readonly reopens?: boolean;
    }
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
  /** What the worker's machine was unable to do; null or absent: nothing is said. */
  readonly unable?: Ability | null;
}

/** What a value of an event must be: the part of JSON Schema that `problemOf` checks. */
export interface ValueSchema {
  readonly type: 'string' | 'integer' | 'boolean' | 'object' | 'array';
  readonly description: string;
  readonly enum?: readonly string[];
  /** `date-time` is ISO 8601. */
  readonly format?: 'date-time';
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly additionalProperties?: true;
  /** Of a list. */
  readonly items?: Pick<ValueSchema, 'type' | 'minimum' | 'maximum'>;
  readonly maxItems?: number;
}

/** A type of events that the state machine handles: its description in the API, its checks, its reporters and its effect. */
export interface EventType {
  readonly description: string;
  /** The scope that may report it, beside `admin`; absent: each that reports events. */
  readonly scope?: 'worker' | 'client';
  /** Absent: a text or an integer. */
  readonly msg?: ValueSchema;
  /** Fields that are checked. All but the required ones may be absent or null. */
  readonly payload: Readonly<Record<string, ValueSchema>>;
  readonly required?: readonly string[];
  /** @param payload checked, without null */
  effect(payload: JsonObject, msg: string | number): EventEffect;
}

const GPU_ID = { type: 'integer', minimum: -INT32_MAX, maximum: INT32_MAX } as const;

const CONTAINER_TIMES = {
  started_at: timeSchema('When the container started; replaces the time of STARTED.'),
  finished_at: timeSchema('When the container ended, which may be long before this report; absent: now.'),
};

export const EVENT_TYPES = {
  PREPARING: {
    description:
      'The worker has begun to prepare the attempt; `msg` says what it waits for, such as the pull of the image. ' +
      'Changes no state; from now on `timeouts.start_within_s` does not count.',
    scope: 'worker',
    payload: {},
    effect: () => ({ kind: 'PREPARING' }),
  },
  STARTED: {
    description: 'The worker has started the container. The run becomes RUNNING.',
    scope: 'worker',
    payload: {
      worker_id: {
        type: 'string',
        minLength: 1,
        maxLength: 128,
        description: 'The worker that executes the run.',
      },
      gpu_id: { ...GPU_ID, description: 'The GPU in use, the first of several.' },
      gpu_ids: {
        type: 'array',
        items: GPU_ID,
        maxItems: MAX_GPUS,
        description: 'The GPUs in use; absent or empty: `gpu_id` alone.',
      },
      started_at: timeSchema('When the container started.'),
    },
    required: ['worker_id'],
    effect: ({ worker_id, gpu_id, gpu_ids, started_at }) => ({
      kind: 'STARTED',
      workerId: textOf(worker_id) ?? '',
      gpuId: numberOf(gpu_id),
      gpuIds: Array.isArray(gpu_ids) ? gpu_ids.flatMap((id) => numberOf(id) ?? []) : [],
      startedAt: timeOf(started_at),
    }),
  },
  PROGRESS: {
    description: 'Sets the progress of the run.',
    msg: { type: 'integer', minimum: 0, maximum: 100, description: 'Percentage.' },
    payload: {},
    effect: (_, msg) => ({ kind: 'PROGRESS', progress: Number(msg) }),
  },
  COMPLETED: {
    description: 'The container has succeeded. The run becomes COMPLETED.',
    scope: 'worker',
    payload: {
      outputs: {
        type: 'object',
        additionalProperties: true,
        description: 'Outputs of the run; absent: the outputs stay as they are.',
      },
      ...CONTAINER_TIMES,
    },
    effect: ({ outputs, ...payload }) => ({
      kind: 'COMPLETED',
      outputs: isJsonObject(outputs) ? outputs : undefined,
      times: timesOf(payload),
    }),
  },
  FAILED: {
    description:
      'The attempt has failed. The run becomes PENDING if its retry policy allows a further attempt, else FAILED.',
    scope: 'worker',
    payload: {
      error_message: { type: 'string', description: 'Why the attempt failed.' },
      cause: {
        type: 'string',
        enum: FAILURE_CAUSES,
        description:
          'What kind of failure it was; absent: `error`. After `infrastructure` (node lost, engine unavailable, too few ' +
          'resources) the run gets another attempt that uses up no retry, for 10 seconds on other workers only, or for 60 after losses ' +
          'that one worker repeated.',
      },
      exit_code: {
        type: 'integer',
        minimum: 0,
        maximum: MAX_EXIT_CODE,
        description: 'Exit code of the container.',
      },
      unable: {
        type: 'string',
        enum: ABILITIES,
        description:
          'With the cause `infrastructure`: what the machine is unable to do at present, as heartbeats of this worker say from ' +
          'now on. Such a failure does not count as a loss of the run.',
      },
      ...CONTAINER_TIMES,
    },
    effect: ({ error_message, cause, exit_code, unable, ...payload }) => ({
      kind: 'FAILED',
      errorMessage: textOf(error_message),
      cause: FAILURE_CAUSES.find((one) => one === cause) ?? 'error',
      exitCode: numberOf(exit_code),
      unable: ABILITIES.find((one) => one === unable) ?? null,
      times: timesOf(payload),
    }),
  },
  CANCELLED: {
    description: 'Cancels the run.',
    scope: 'client',
    payload: {},
    effect: () => ({ kind: 'CANCELLED' }),
  },
  RETRIED: {
    description: 'Opens a new attempt. The run becomes PENDING.',
    scope: 'client',
    payload: { force: { type: 'boolean', description: 'True: also if the run has ended.' } },
    effect: ({ force }) => ({ kind: 'RETRIED', force: force === true }),
  },
} satisfies Readonly<Record<string, EventType>>;

/** Types with a meaning for the service; only the service records RECLAIMED. */
export const SPECIAL_EVENT_TYPES: readonly string[] = [...Object.keys(EVENT_TYPES), 'RECLAIMED'];

const BY_NAME: ReadonlyMap<string, EventType> = new Map(Object.entries(EVENT_TYPES));

/** The declaration of a type; undefined: the service only records its events. */
export function eventType(name: string): EventType | undefined {
  return BY_NAME.get(name);
}

/** What a value is not, as `must be ...`; undefined: it is right. */
export function problemOf(schema: ValueSchema, value: JsonValue | undefined): string | undefined {
  const { minimum = -Infinity, maximum = Infinity, minLength = 0, maxLength = Infinity } = schema;
  switch (schema.type) {
    case 'array': {
      const { items, maxItems = Infinity } = schema;
      const isRight = (item: JsonValue): boolean =>
        items === undefined || problemOf({ description: '', ...items }, item) === undefined;
      if (Array.isArray(value) && value.length <= maxItems && value.every(isRight)) return undefined;
      return `must be a list of at most ${maxItems} integers`;
    }
    case 'object':
      return isJsonObject(value) ? undefined : 'must be an object';
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be a boolean';
    case 'integer': {
      const isInteger = typeof value === 'number' && Number.isInteger(value);
      if (isInteger && value >= minimum && value <= maximum) return undefined;
      return `must be an integer${maximum === INT32_MAX ? '' : ` from ${minimum} to ${maximum}`}`;
    }
    case 'string':
      if (schema.enum !== undefined)
        return schema.enum.some((one) => one === value)
          ? undefined
          : `must be one of: ${schema.enum.join(', ')}`;
      if (schema.format !== undefined)
        return timeOf(value) === null
          ? 'must be an ISO 8601 date and time with a time zone, or UNIX seconds'
          : undefined;
      if (typeof value !== 'string') return 'must be a string';
      return value.length >= minLength && value.length <= maxLength
        ? undefined
        : `must be of ${minLength} to ${maxLength} characters`;
  }
}

/** The service limits it to the time from the assignment to now. */
function timeSchema(description: string): ValueSchema {
  return {
    type: 'string',
    format: 'date-time',
    description: `${description} ISO 8601, or UNIX seconds; times before the assignment or in the future are moved to these limits.`,
  };
}

function timesOf({ started_at, finished_at }: JsonObject): ContainerTimes {
  return { startedAt: timeOf(started_at), finishedAt: timeOf(finished_at) };
}

function timeOf(value: JsonValue | undefined): Date | null {
  return readInstant(value);
}

function textOf(value: JsonValue | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

function numberOf(value: JsonValue | undefined): number | null {
  return typeof value === 'number' ? value : null;
}
