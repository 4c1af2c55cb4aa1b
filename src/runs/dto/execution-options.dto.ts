import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import { isJsonObject } from '@longshore/common/json/json-value';
import { readTime } from '@longshore/common/json/read-time';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import {
  IsJsonInteger,
  IsText,
  IsTextList,
  IsTextMap,
  Nested,
  OptionalField,
  textMapProblem,
  type TextMapShape,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { IsTimeOrSpan } from '../../common/http/validation/time-field.js';
import type { ContainerOptions } from '../../database/entities/run.entity.js';
import type { RunRecord } from '../machine/run.js';
import { SECRET_NAME } from '../secret-name.js';

/** Entries of `env`, and of `secrets`, at most. */
const MAX_VARIABLES = 100;

const VARIABLE_NAME: TextShape = {
  pattern: /^(?!SERVICE_)[A-Za-z_][A-Za-z0-9_]*$/,
  form: 'letters, digits and _, not starting with a digit or SERVICE_',
};
const ENV: TextMapShape = { keys: VARIABLE_NAME, max: MAX_VARIABLES, maxBytes: 32 * 1024 };
const SECRETS: TextMapShape = { keys: VARIABLE_NAME, values: SECRET_NAME, max: MAX_VARIABLES };

/** Strings of `command` and of `args`. */
const ARGUMENT: TextShape = { max: 4096 };
const MAX_ARGUMENTS = { max: 100 };

/** Tags of a selector. */
export const MAX_TAGS = 20;

/** Days that `start_at` may lie ahead. */
const MAX_DAYS_AHEAD = 366;
const DAY_MS = 86_400_000;

const CONCURRENCY_DESCRIPTION =
  'Bounds how many runs with a key are in execution (ASSIGNED or RUNNING) at a time.';

@ApiSchema({ name: 'ConcurrencyInput', description: CONCURRENCY_DESCRIPTION })
export class ConcurrencyInputDto {
  /** Shared by the runs that are counted together. @example customer-17 */
  @IsText({ min: 1, max: 255, pattern: NO_CONTROL_CHARACTERS, form: 'a string without control characters' })
  key: string;

  /** The run is assigned only if at most so many runs with the key are then in execution, itself included. @example 2 */
  @IsJsonInteger({ min: 1, max: 10_000 })
  limit: number;
}

@ApiSchema({ name: 'Concurrency', description: CONCURRENCY_DESCRIPTION })
export class ConcurrencyDto {
  /** Shared by the runs that are counted together. */
  key: string;
  /** The run is assigned only if at most so many runs with the key are then in execution, itself included. */
  @ApiProperty({ type: 'integer' })
  limit: number;
}

/** What requests say about the container of a run, and about when and where it is executed. */
export class ExecutionOptionsInputDto {
  /**
   * Environment variables of the container: at most 100, and 32 KiB with their names. A name has letters, digits and `_`, and
   * does not start with a digit or with `SERVICE_`. @example {"LOG_LEVEL": "debug"}
   */
  @OptionalField()
  @IsTextMap(ENV)
  env?: Record<string, string>;

  /**
   * Replaces the entrypoint of the image. Without `args`, the arguments of the image are dropped as well. An empty list
   * keeps those of the image. @example ["python", "count.py"]
   */
  @OptionalField()
  @IsTextList(ARGUMENT, MAX_ARGUMENTS)
  command?: string[];

  /** Replaces the arguments of the image. An empty list keeps them. @example ["--verbose"] */
  @OptionalField()
  @IsTextList(ARGUMENT, MAX_ARGUMENTS)
  args?: string[];

  /**
   * Names of secrets by the environment variable of the container that holds the value: at most 100. None of the variables
   * may be in `env`. @example {"TOKEN": "hub-token"}
   */
  @OptionalField()
  @IsTextMap(SECRETS)
  @ValidateBy({
    name: 'isNotInEnv',
    validator: {
      validate: (value: unknown, args) => commonVariable(envOf(args?.object), value) === undefined,
      defaultMessage: (args) =>
        isInBoth(`$property.${commonVariable(envOf(args?.object), args?.value) ?? ''}`),
    },
  })
  secrets?: Record<string, string>;

  /** Name of the secret, of kind `registry`, with the login for the registry of the image. @example hub-login */
  @OptionalField()
  @IsText(SECRET_NAME)
  image_pull_secret?: string;

  /** Tags that a worker must have to get the run. @example ["gpu", "eu"] */
  @OptionalField()
  @IsTextList({ min: 1, max: 128 }, { max: MAX_TAGS })
  selector?: string[];

  /** Bounds how many runs are in execution at a time. */
  @OptionalField()
  @Nested(() => ConcurrencyInputDto)
  concurrency?: ConcurrencyInputDto;
}

/** As its base, with what only a run can have. */
export class RunExecutionOptionsInputDto extends ExecutionOptionsInputDto {
  /**
   * The run is not assigned before this time, at most 366 days ahead: an ISO 8601 date and time with a zone, or a span from the
   * service's time on, such as `90s`, `10m`, `2h` or `3d`. A time in the past counts as now.
   */
  @OptionalField()
  @IsTimeOrSpan(isStartTime, `at most ${MAX_DAYS_AHEAD} days ahead`)
  start_at?: string;
}

/** What is shown of the options of a run or a definition. */
export class ExecutionOptionsDto {
  /** Environment variables of the container. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  env: Readonly<Record<string, string>>;
  /** Replaces the entrypoint of the image; null: it does not. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  command: string[] | null;
  /** Replaces the arguments of the image; null: it does not. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  args: string[] | null;
  /** Names of secrets by the environment variable that holds the value. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  secrets: Readonly<Record<string, string>>;
  /** Name of the secret with the login for the registry. */
  @ApiProperty({ type: 'string', nullable: true })
  image_pull_secret: string | null;
  /** Tags that a worker must have. */
  @ApiProperty({ type: 'array', items: { type: 'string' } })
  selector: readonly string[];
  @ApiProperty({ type: ConcurrencyDto, nullable: true })
  concurrency: ConcurrencyDto | null;
}

type StoredOptions = Pick<RunRecord, 'container' | 'selector' | 'concurrencyKey' | 'concurrencyLimit'>;

/** Options of requests, or of a definition as it is shown; absent ones take their defaults. */
export type RequestedExecutionOptions = {
  readonly [F in keyof ExecutionOptionsDto]?: ExecutionOptionsDto[F] | null | undefined;
};

/** The columns that hold the options. */
export function toStoredExecutionOptions(options: RequestedExecutionOptions): StoredOptions {
  const { env, command, args, secrets, image_pull_secret: login, selector, concurrency } = options;
  const container: ContainerOptions = {
    ...(env && Object.keys(env).length > 0 && { env }),
    ...(command && command.length > 0 && { command }),
    ...(args && args.length > 0 && { args }),
    ...(secrets && Object.keys(secrets).length > 0 && { secrets }),
    ...(login && { image_pull_secret: login }),
  };
  return {
    container: Object.keys(container).length > 0 ? container : null,
    selector: selector && selector.length > 0 ? selector : null,
    concurrencyKey: concurrency?.key ?? null,
    concurrencyLimit: concurrency?.limit ?? null,
  };
}

/** The options with the documented defaults. */
export function toExecutionOptionsDto({
  container,
  selector,
  concurrencyKey: key,
  concurrencyLimit: limit,
}: StoredOptions): ExecutionOptionsDto {
  const { env = {}, command = null, args = null, secrets = {}, image_pull_secret = null } = container ?? {};
  const concurrency = key === null || limit === null ? null : { key, limit };
  return { env, command, args, secrets, image_pull_secret, selector: selector ?? [], concurrency };
}

/**
 * Options of a definition with those of a run of it, which win: variable by variable in `env` and `secrets`, as a whole in
 * the others. An absent option is the definition's.
 * @returns the options, or what is wrong with them: one line per field
 */
export function mergeExecutionOptions(
  definition: ExecutionOptionsDto,
  run: ExecutionOptionsInputDto,
): RequestedExecutionOptions | { readonly problems: readonly string[] } {
  const env = { ...definition.env, ...run.env };
  const secrets = { ...definition.secrets, ...run.secrets };
  const common = commonVariable(env, secrets);
  const problems = [
    textMapProblem(env, ENV, 'env'),
    textMapProblem(secrets, SECRETS, 'secrets'),
    common === undefined ? undefined : isInBoth(`secrets.${common}`),
  ].filter((problem) => problem !== undefined);
  if (problems.length > 0) return { problems };
  return {
    env,
    command: run.command ?? definition.command,
    args: run.args ?? definition.args,
    secrets,
    image_pull_secret: run.image_pull_secret ?? definition.image_pull_secret,
    selector: run.selector ?? definition.selector,
    concurrency: run.concurrency ?? definition.concurrency,
  };
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

function envOf(options: object | undefined): unknown {
  return options && 'env' in options ? options.env : undefined;
}

/** A variable of both objects. */
function commonVariable(env: unknown, secrets: unknown): string | undefined {
  if (!isJsonObject(env) || !isJsonObject(secrets)) return undefined;
  return Object.keys(secrets).find((name) => Object.hasOwn(env, name));
}

function isInBoth(path: string): string {
  return `${path} must not be in env as well`;
}
