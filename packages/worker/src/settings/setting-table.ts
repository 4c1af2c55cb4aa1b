import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import type { Setting } from '@longshore/common/settings/setting';
import {
  matching,
  partsOf,
  SettingsReader,
  within,
  type SettingValue,
} from '@longshore/common/settings/settings-reader';

/** What a value means; undefined: it is not allowed. */
type Check<T> = (value: SettingValue) => T | undefined;

/** A setting of the worker. Its `field` is its variable, its flag is named after it: `--tick` for `SERVICE_WORKER_TICK`. */
export interface WorkerSetting<T> extends Setting {
  readonly check: Check<T>;
  /** What it means when it is not set; absent: it has a default. */
  readonly unset?: T;
}

/** Settings by the names that the worker reads them by, in the order in which help shows them. */
type SettingTable = Readonly<Record<string, WorkerSetting<unknown>>>;

/** What the settings of a table mean. */
export type SettingsOf<T extends SettingTable> = {
  readonly [F in keyof T]: T[F] extends WorkerSetting<infer V> ? V : never;
};

/** What the settings of a table mean. Refuses values at the reader, which throws later. */
export function settingsOf<T extends SettingTable>(table: T, reader: SettingsReader<string>): SettingsOf<T> {
  const read = Object.entries(table).map(([name, { env, check, unset }]) => [
    name,
    reader.read(env, check, unset),
  ]);
  return Object(Object.fromEntries(read));
}

/** As {@link settingsOf}, of environment variables alone. @throws SettingsError with a line for every wrong setting */
export function readSettings<T extends SettingTable>(table: T, env: NodeJS.ProcessEnv): SettingsOf<T> {
  const reader = new SettingsReader(Object.values(table), [], env);
  const settings = settingsOf(table, reader);
  reader.throwIfRefused();
  return settings;
}

type TextRow<T> = Pick<WorkerSetting<T>, 'allowed' | 'check' | 'default' | 'unset'>;

/** A setting with a text. */
export function text<T>(env: string, row: TextRow<T>, description: string): WorkerSetting<T> {
  return { field: env, env, flag: flagOf(env), kind: 'text', description, ...row };
}

/** A setting with a text; null: not set. */
export function optional<T>(
  env: string,
  row: Pick<WorkerSetting<T>, 'allowed' | 'check'>,
  description: string,
): WorkerSetting<T | null> {
  return text<T | null>(env, { ...row, unset: null }, description);
}

export function path(env: string, description: string): WorkerSetting<string | null> {
  return optional(env, { allowed: 'a path', check: String }, description);
}

interface Range<D extends number | null> {
  readonly min: number;
  readonly max: number;
  /** Null: it may be unset. */
  readonly default: D;
  /** What is counted. */
  readonly of?: string;
}

export function integer<D extends number | null>(
  env: string,
  range: Range<D>,
  description: string,
): WorkerSetting<number | D> {
  return { ...number(env, range, description), kind: 'integer', allowed: `an integer${boundsOf(range)}` };
}

export function number<D extends number | null>(
  env: string,
  range: Range<D>,
  description: string,
): WorkerSetting<number | D> {
  const { min, max, default: fallback } = range;
  const row = text(env, { allowed: `a number${boundsOf(range)}`, check: within(min, max) }, description);
  const whenUnset = fallback === null ? { unset: fallback } : { default: String(fallback) };
  return { ...row, ...whenUnset, kind: 'number' };
}

function boundsOf({ min, max, of: unit }: Range<number | null>): string {
  return `${unit === undefined ? '' : ` of ${unit}`} from ${min} to ${max}`;
}

function flagOf(env: string): string {
  return env
    .replace(/^SERVICE_(?:WORKER_)?/, '')
    .toLowerCase()
    .replaceAll('_', '-');
}

/** Takes one of the words. */
export function oneOf<W extends string>(...words: readonly W[]): Check<W> {
  return (value) => words.find((word) => word === value);
}

/**
 * Takes a comma-separated list.
 * @param most entries
 * @param parse an entry; undefined: it is not allowed
 */
export function listOf<T>(most: number, parse: (entry: string) => T | undefined): Check<T[]> {
  return (value) => {
    const entries = partsOf(value);
    const parsed = entries.map(parse).filter((entry) => entry !== undefined);
    const isFine = entries.length > 0 && entries.length <= most && parsed.length === entries.length;
    return isFine ? parsed : undefined;
  };
}

/** Takes a comma-separated list of pairs, of which the last of one name counts. */
export function mapOf<V>(
  most: number,
  parse: (entry: string) => readonly [string, V] | undefined,
): Check<ReadonlyMap<string, V>> {
  return (value) => {
    const pairs = listOf(most, parse)(value);
    return pairs && new Map(pairs);
  };
}

/** As {@link mapOf}, without two pairs of one name. */
export function uniqueMapOf<V>(
  most: number,
  parse: (entry: string) => readonly [string, V] | undefined,
): Check<ReadonlyMap<string, V>> {
  return (value) => {
    const map = mapOf(most, parse)(value);
    return map?.size === partsOf(value).length ? map : undefined;
  };
}

/** Takes patterns of images such as `ghcr.io/acme/*`. */
export const imagePatterns = listOf(100, matching(/^[A-Za-z0-9._:/[\]*-]{1,255}$/));

/** Whether a text may be the tag of a worker. */
export function isTag(tag: string): boolean {
  return tag !== '' && tag.length <= 128 && NO_CONTROL_CHARACTERS.test(tag);
}
