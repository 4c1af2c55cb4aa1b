import type { RunRecord } from '../machine/run.js';
import { TIME_BOUNDS, type RunFilter, type TimeBound, type TimeRange } from './run-filter.js';

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
