import { DependsOnField, type DependencyDto } from './dependency.dto.js';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ConstraintsInputDto } from './constraints.dto.js';
import { PRIORITY, TimeoutsInputDto } from './timeouts-and-delivery.dto.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { readTime } from '@longshore/common/json/read-time';
import {
  IsJsonInteger,
  IsText,
  IsTextList,
  IsTextMap,
  JsonObject,
  Nested,
  OptionalField,
  SHOWN_TEXT,
  type TextMapShape,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { IsTimeOrSpan } from '../../common/http/validation/time-field.js';
import type { Labels, OnLimit } from '../../database/entities/run.entity.js';
import {
  type RunRecord,
  areTooMany,
  mergeLabels,
  MAX_CONCURRENCY_LIMIT,
  MAX_LABELS,
  ON_LIMIT,
  type LabelChanges,
} from '../machine/run.js';
import {
  RequestedOptionFields,
  ShownOptionFields,
  mergeOptions,
  pickOptions,
  showOptions,
  type DefinedOptions,
  type RequestedOptions,
} from '../options/stored-options.js';
import { applyDecorators } from '@nestjs/common';
import { IsIn } from 'class-validator';

/** The name of a run. */
export const RUN_NAME = {
  min: 1,
  max: 200,
  ...SHOWN_TEXT,
} as const satisfies TextShape;

/** A key of labels. */
const KEY = '[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?';

/** The labels of a request; null removes one. */
export const LABELS = {
  keys: {
    pattern: new RegExp(`^${KEY}$`),
    form: '1 to 63 characters of a-z, 0-9 and . _ / -, the first and the last a letter or digit',
  },
  repair: rightLabel,
  values: { max: 256, ...SHOWN_TEXT },
  max: MAX_LABELS,
  nullable: true,
} as const satisfies TextMapShape;

/** The key of a label in the right form: `Department` is `department`, `epi:env` is `epi-env`. */
function rightLabel(key: string): string | undefined {
  const right = key
    .slice(0, 63)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._/-]+/g, '-')
    .replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, '');
  return right === '' ? undefined : right;
}

/** Labels by which a list may be filtered. */
export const MAX_LABEL_FILTERS = 5;

/** `key` or `key=value`. */
export const LABEL_FILTER = {
  max: 63 + 1 + 256,
  pattern: new RegExp(`^${KEY}(?:=.*)?$`, 's'),
  form: 'a label as key or key=value',
} as const satisfies TextShape;

/** Labels of a request; null removes one. */
export function LabelsField(): PropertyDecorator {
  return applyDecorators(OptionalField(), IsTextMap(LABELS));
}

/** Tags of a selector. */
export const MAX_TAGS = 20;

/** Days that `start_at` may lie ahead. */
const MAX_DAYS_AHEAD = 366;
const DAY_MS = 86_400_000;

const CONCURRENCY_DESCRIPTION =
  'Bounds how many runs with a key are in execution (ASSIGNED or RUNNING) at a time.';

const ON_LIMIT_FIELD = {
  enum: ON_LIMIT,
  required: false,
  description:
    'What happens if, when the run is created, as many runs with the key as `limit` says, or more, have not ended. `queue`, the ' +
    'default: it waits. `skip`: it is created and ends CANCELLED with the cause `concurrency`. `cancel_oldest`: as many of the oldest ' +
    'of these runs end so that, with the new one, at most `limit` are left.',
} as const;

@ApiSchema({ name: 'ConcurrencyInput', description: CONCURRENCY_DESCRIPTION })
export class ConcurrencyInputDto {
  /** Shared by the runs that are counted together. @example customer-17 */
  @IsText({ min: 1, max: 255, ...SHOWN_TEXT })
  key: string;

  /** The run is assigned only if at most so many runs with the key are then in execution, itself included. @example 2 */
  @IsJsonInteger({ min: 1, max: MAX_CONCURRENCY_LIMIT })
  limit: number;

  @ApiProperty(ON_LIMIT_FIELD)
  @OptionalField()
  @IsIn(ON_LIMIT, { message: `$property must be one of ${ON_LIMIT.join(', ')}` })
  on_limit?: OnLimit;
}

@ApiSchema({ name: 'Concurrency', description: CONCURRENCY_DESCRIPTION })
export class ConcurrencyDto {
  /** Shared by the runs that are counted together. */
  key: string;
  /** The run is assigned only if at most so many runs with the key are then in execution, itself included. */
  @ApiProperty({ type: 'integer' })
  limit: number;
  @ApiProperty(ON_LIMIT_FIELD)
  on_limit?: OnLimit;
}

/** What requests say about the container of a run, and about when and where it is executed. */
export class ExecutionOptionsInputDto extends RequestedOptionFields {
  /** Tags that a worker must have to get the run. @example ["gpu", "eu"] */
  @OptionalField()
  @IsTextList({ min: 1, max: 128, ...SHOWN_TEXT }, { max: MAX_TAGS })
  selector?: string[];

  /** Bounds how many runs are in execution at a time. */
  @OptionalField()
  @Nested(() => ConcurrencyInputDto)
  concurrency?: ConcurrencyInputDto;

  /**
   * Texts by which runs are found and grouped: at most 32. A run of a definition has those of the definition and its own; null
   * leaves one out. @example {"team": "vision"}
   */
  @LabelsField()
  labels?: LabelChanges;

  /** Hardware that the run needs. */
  @OptionalField()
  @Nested(() => ConstraintsInputDto)
  constraints?: ConstraintsInputDto;

  /** How long the run may wait for its start and how long an attempt may run. */
  @OptionalField()
  @Nested(() => TimeoutsInputDto)
  timeouts?: TimeoutsInputDto;
}

/** As its base, with what only a run can have. */
export class RunExecutionOptionsInputDto extends ExecutionOptionsInputDto {
  /** Name for people, which need not be unique. @example nightly training */
  @OptionalField()
  @IsText(RUN_NAME)
  name?: string;

  /** Higher is scheduled first; 0 unless given. @example 0 */
  @OptionalField()
  @IsJsonInteger(PRIORITY)
  priority?: number;

  /** Template that the container finds in its output file. */
  @OptionalField()
  @JsonObject()
  outputs?: JsonObjectValue;

  /**
   * The run is not assigned before this time, at most 366 days ahead: UNIX seconds, an ISO 8601 date and time with a zone, or a
   * span from the service's time on, such as `90s`, `10m`, `2h` or `3d`. A time in the past counts as now.
   */
  @OptionalField()
  @IsTimeOrSpan(isStartTime, `at most ${MAX_DAYS_AHEAD} days ahead`)
  start_at?: string;

  /**
   * Runs and groups that must end first. Until then it is PENDING for the reason `dependency`, and `start_within_s` does not count. In a run that
   * waits, a value of `inputs` may be `{"$from": {"run": ID, "output": "/pointer", "default": VALUE}}`, with `group` for a list by index: it is read
   * when all have ended.
   */
  @DependsOnField()
  depends_on?: DependencyDto[];
}

/** What is shown of the options of a run or a definition. */
export class ExecutionOptionsDto extends ShownOptionFields {
  /** Tags that a worker must have. */
  @ApiProperty({ type: 'array', items: { type: 'string' } })
  selector: readonly string[];
  @ApiProperty({ type: ConcurrencyDto, nullable: true })
  concurrency: ConcurrencyDto | null;
  /** Texts by which runs are found and grouped. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  labels: Labels;
}

type StoredOptions = Pick<
  RunRecord,
  'options' | 'selector' | 'concurrencyKey' | 'concurrencyLimit' | 'concurrencyOnLimit' | 'labels'
>;

interface Placement {
  readonly selector?: readonly string[] | null | undefined;
  readonly concurrency?: ConcurrencyDto | null | undefined;
  readonly labels?: LabelChanges | null | undefined;
}

/** Options of requests; absent ones take their defaults. */
export type RequestedExecutionOptions = RequestedOptions & Placement;

/** The columns that hold the options. */
export function toStoredExecutionOptions(request: DefinedOptions & Placement): StoredOptions {
  const { selector, concurrency, labels } = request;
  return {
    options: pickOptions(request),
    selector: selector && selector.length > 0 ? selector : null,
    concurrencyKey: concurrency?.key ?? null,
    concurrencyLimit: concurrency?.limit ?? null,
    concurrencyOnLimit: concurrency?.on_limit ?? null,
    labels: mergeLabels(labels),
  };
}

/** The options with the documented defaults. */
export function toExecutionOptionsDto(stored: StoredOptions): ExecutionOptionsDto {
  const { options, selector, labels } = stored;
  return {
    ...showOptions(options),
    selector: selector ?? [],
    concurrency: toConcurrencyDto(stored),
    labels: labels ?? {},
  };
}

/**
 * Options of a definition with those of a run of it, which win; an absent option is the definition's.
 * @returns the options, or what is wrong with them: one line per field
 */
export function mergeExecutionOptions(
  definition: StoredOptions,
  run: ExecutionOptionsInputDto,
): RequestedExecutionOptions | { readonly problems: readonly string[] } {
  const options = mergeOptions(definition.options, run);
  if ('problems' in options) return options;
  const labels = mergeLabels(definition.labels, run.labels);
  if (areTooMany(labels))
    return { problems: [`labels must be at most ${MAX_LABELS}, those of the definition included`] };
  return {
    ...options.merged,
    selector: run.selector ?? definition.selector,
    concurrency: run.concurrency ?? toConcurrencyDto(definition),
    labels,
  };
}

/** Null without a key. */
function toConcurrencyDto({
  concurrencyKey: key,
  concurrencyLimit: limit,
  concurrencyOnLimit: onLimit,
}: Pick<StoredOptions, 'concurrencyKey' | 'concurrencyLimit' | 'concurrencyOnLimit'>): ConcurrencyDto | null {
  if (key === null || limit === null) return null;
  return { key, limit, ...(onLimit !== null && { on_limit: onLimit }) };
}

/** A time before which a run is not assigned, rounded up to the millisecond; null for anything but a time or span. */
export function readStartTime(text: string): Date | null {
  const time = readTime(text, Date.now());
  return time && /\.\d{3}\d*[1-9]/.test(text) ? new Date(time.getTime() + 1) : time;
}

function isStartTime(text: string): boolean {
  const time = readStartTime(text);
  return time !== null && time.getTime() <= Date.now() + MAX_DAYS_AHEAD * DAY_MS;
}
