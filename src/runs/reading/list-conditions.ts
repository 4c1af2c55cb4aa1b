import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import { isInExecution } from '../machine/run-state.js';
import { type RunFilter, TIME_BOUNDS, type TimeBound, type TimeRange } from './run-filter.js';
import type { RunRecord } from '../machine/run.js';

/** What the walk of a list reads. */
export interface ListDriver {
  /** A group of terms, by its position; the index of a field; or all runs of an outcome. */
  readonly reads: number | 'field' | 'outcome';
  /** Whether these runs were counted, and are few. */
  readonly isRare: boolean;
}

/** Runs of a condition that are counted, at most: one with as many is frequent. */
const COUNTED = 10_000;

/**
 * The rarest condition of the filter, so that a list reads few runs in vain. Reads only where there is a choice, and a bounded
 * number of entries of indexes.
 */
export async function findDriver(manager: EntityManager, filter: RunFilter): Promise<ListDriver> {
  const { terms = [], state } = filter;
  const hasName = filter.name !== undefined || filter.namePrefix !== undefined;
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const sources = terms.map((group) => `run_terms where term = any(${bind(group, 'text[]')})`);
  const fields = fieldConditions(filter, bind);
  if (fields.length > 0) sources.push(`runs where ${fields.join(' and ')}`);
  const isExecuting = state !== undefined && isInExecution(state);
  const hasChoice = sources.length > 1 || hasName || (terms.length > 0 && endedSince(filter) !== undefined);
  if (isExecuting || !hasChoice) return { reads: terms.length > 0 ? 0 : 'field', isRare: false };
  const counts = sources.map((source) => `(select count(*) from (select from ${source} limit ${COUNTED}) c)`);
  const [row] = await rows<{ readonly counts: readonly number[] }>(
    manager,
    `select array[${counts.join(', ')}]::integer[] as counts`,
    params,
  );
  const found = row?.counts ?? [];
  const least = Math.min(...found);
  const rarest = found.indexOf(least);
  const isRare = least < COUNTED;
  if (rarest < terms.length) return { reads: rarest, isRare };
  // The index of names is in the order of names, without outcomes: all runs of a frequent name would be read, those of a beginning sorted.
  const isFrequentName = !isRare && fields.length === 1 && hasName;
  return { reads: isFrequentName ? 'outcome' : 'field', isRare };
}

/**
 * SQL of the conditions on fields of `runs` that stay as they are while a run is in one outcome. A worker is that of runs that have
 * ended; those in execution are found by `executions`.
 */
export function fieldConditions(filter: RunFilter, bind: Bind): string[] {
  const {
    definitionId,
    image,
    topic,
    concurrencyKey,
    cause,
    workerId,
    exitCode,
    name,
    namePrefix,
    createdBy,
    rerunOf,
    scheduleId,
    groupId,
  } = filter;
  const fields = {
    definition_id: definitionId,
    image,
    topic,
    concurrency_key: concurrencyKey,
    cause,
    ended_worker: workerId,
    schedule_id: scheduleId,
  };
  const conditions = Object.entries(fields).flatMap(([column, value]) =>
    value === undefined ? [] : [`${column} = ${bind(value, 'text')}`],
  );
  // The index of topic and image has a hash of the image: an entry of both texts could be too long.
  if (topic !== undefined && image !== undefined) {
    conditions.push(`hashtextextended(image, 0) = hashtextextended(${bind(image, 'text')}, 0)`);
  }
  if (groupId !== undefined) conditions.push(`group_id = ${bind(groupId, 'uuid')}`);
  if (rerunOf !== undefined) conditions.push(`rerun_of = ${bind(rerunOf, 'uuid')}`);
  if (createdBy !== undefined) conditions.push(`created_by = ${bind(createdBy, 'uuid')}`);
  if (exitCode !== undefined) conditions.push(`exit_code = ${bind(exitCode, 'smallint')}`);
  if (name !== undefined) conditions.push(`name collate "C" = ${bind(name, 'text')}`);
  if (namePrefix !== undefined) conditions.push(nameCondition(bind(namePrefix, 'text')));
  return conditions;
}

/** SQL of whether a name begins with a text. No character sorts behind U+10FFFF. */
function nameCondition(prefix: string): string {
  return `(name collate "C" >= ${prefix} and name collate "C" < ${prefix} || chr(1114111))`;
}

export type RunPlace = Pick<RunRecord, 'createdAt' | 'id'>;

/** Where a walk through a list starts, and where it goes. */
export interface WalkStart {
  /** The walk starts after this run; null: at the end of the list. */
  readonly place: RunPlace | null;
  readonly direction: 'older' | 'newer';
}

/** Adds a parameter of a statement. @returns its place, with its type */
export type Bind = (value: unknown, type: string) => string;

/** The bounds of a time: the operator, and the direction of the walks that start at a bound of the creation. */
const BOUNDS = {
  gte: { operator: '>=', direction: 'newer', keeps: (time: Date, bound: Date) => time >= bound },
  lte: { operator: '<=', direction: 'older', keeps: (time: Date, bound: Date) => time <= bound },
  gt: { operator: '>', direction: 'newer', keeps: (time: Date, bound: Date) => time > bound },
  lt: { operator: '<', direction: 'older', keeps: (time: Date, bound: Date) => time < bound },
} as const satisfies Record<TimeBound, object>;

/**
 * SQL of the conditions on the creation. Of those on the side where the walk starts, only the tightest: an index scan starts at
 * any of them and would read rows in vain up to the tightest.
 */
export function createdConditions(created: TimeRange, { place, direction }: WalkStart, bind: Bind): string[] {
  const given = TIME_BOUNDS.flatMap((name) => {
    const time = created[name];
    return time ? [{ name, time, isBehind: BOUNDS[name].direction === direction }] : [];
  });
  const bounds = given.filter(
    ({ name, time, isBehind }) => !(place && isBehind && BOUNDS[name].keeps(place.createdAt, time)),
  );
  const conditions = bounds.map(({ name, time }) => condition('created_at', name, time, bind));
  if (!place || bounds.some(({ isBehind }) => isBehind)) return conditions;
  const at = `(${bind(place.createdAt.toISOString(), 'timestamptz')}, ${bind(place.id, 'uuid')})`;
  return [...conditions, `(created_at, id) ${direction === 'older' ? '<' : '>'} ${at}`];
}

/** SQL of the conditions on the end. */
export function endedConditions({ ended = {} }: RunFilter, bind: Bind): string[] {
  return TIME_BOUNDS.flatMap((name) => {
    const time = ended[name];
    return time ? [condition('finished_at', name, time, bind)] : [];
  });
}

function condition(column: string, name: TimeBound, time: Date, bind: Bind): string {
  return `${column} ${BOUNDS[name].operator} ${bind(time.toISOString(), 'timestamptz')}`;
}

/** When the runs that pass were created: by the bounds of their creation, and not after their end. */
export function createdRange({ created, ended = {} }: RunFilter): TimeRange {
  return within(created, { lt: ended.lt, lte: ended.lte });
}

/** The time at or after which the runs that pass have ended; undefined: the filter has no such bound. */
export function endedSince({ ended = {} }: RunFilter): Date | undefined {
  return latest([ended.gte, ended.gt]);
}

/** Whether the walk meets runs that were created before the time. */
export function reachesBefore(time: Date, { gte, gt }: TimeRange, { place, direction }: WalkStart): boolean {
  const first = latest([gte, gt, direction === 'newer' ? place?.createdAt : undefined]);
  return first === undefined || first < time;
}

/** The times that are in both ranges. */
export function within(
  range: TimeRange,
  other: Readonly<Partial<Record<TimeBound, Date | undefined>>>,
): TimeRange {
  const bounds = TIME_BOUNDS.map((name) => {
    const times = [range[name], other[name]];
    return [name, BOUNDS[name].direction === 'newer' ? latest(times) : earliest(times)] as const;
  });
  return Object.fromEntries(
    bounds.flatMap(([name, time]) => (time === undefined ? [] : [[name, time] as const])),
  );
}

function latest(times: readonly (Date | undefined)[]): Date | undefined {
  return inOrder(times).at(-1);
}

function earliest(times: readonly (Date | undefined)[]): Date | undefined {
  return inOrder(times)[0];
}

function inOrder(times: readonly (Date | undefined)[]): Date[] {
  return times.flatMap((time) => time ?? []).toSorted((a, b) => Number(a) - Number(b));
}
