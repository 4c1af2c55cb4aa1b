import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import { isInExecution } from '../machine/run-state.js';
import { TIME_BOUNDS, type RunFilter, type TimeBound, type TimeRange } from './run-filter.js';

/**
 * What the walk of a list reads: a group of terms, by its position; the index of a field; the runs that ended within the range of
 * time; or all runs of an outcome.
 */
export type ListDriver = number | 'field' | 'ended' | 'outcome';

/** Runs of a condition that are counted, at most: one with as many is frequent. */
const COUNTED = 10_000;

/**
 * The rarest condition of the filter, so that a list reads few runs in vain. Reads only where there is a choice, and a bounded
 * number of entries of indexes.
 */
export async function findDriver(manager: EntityManager, filter: RunFilter): Promise<ListDriver> {
  const { terms = [], namePrefix, ended, state } = filter;
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const sources: Source[] = terms.map((group, n) => ({
    driver: n,
    sql: `run_terms where term = any(${bind(group, 'text[]')})`,
  }));
  const fields = fieldConditions(filter, bind);
  if (fields.length > 0) sources.push({ driver: 'field', sql: `runs where ${fields.join(' and ')}` });
  const isExecuting = state !== undefined && isInExecution(state);
  const isOrdered = namePrefix === undefined && ended === undefined;
  if (isExecuting || (sources.length < 2 && isOrdered)) return terms.length > 0 ? 0 : 'field';
  if (ended !== undefined) {
    sources.push({ driver: 'ended', sql: `runs where ${endedConditions(ended, bind).join(' and ')}` });
  }
  const counts = sources.map(({ sql }) => `(select count(*) from (select from ${sql} limit ${COUNTED}) c)`);
  const [row] = await rows<{ readonly counts: readonly number[] }>(
    manager,
    `select array[${counts.join(', ')}]::integer[] as counts`,
    params,
  );
  const found = row?.counts ?? [];
  const least = Math.min(...found);
  const rarest = sources[found.indexOf(least)]?.driver ?? 'field';
  if (typeof rarest === 'number') return rarest;
  if (least < COUNTED) return rarest;
  // The indexes of names and ends are in their own order: all runs of a frequent beginning, or of a long time, would be sorted.
  if (rarest === 'ended') return fields.length > 0 ? 'field' : 'outcome';
  return fields.length === 1 && namePrefix !== undefined ? 'outcome' : 'field';
}

/** Something that a list can read, and how its entries are counted. */
interface Source {
  readonly driver: ListDriver;
  readonly sql: string;
}

/** Adds a parameter of a statement. @returns its place, with its type */
export type Bind = (value: unknown, type: string) => string;

/**
 * SQL of the conditions on fields of `runs` that stay as they are while a run is in one outcome. The worker of runs that have not ended
 * is in `executions`.
 */
export function fieldConditions(filter: RunFilter, bind: Bind): string[] {
  const { definitionId, image, topic, concurrencyKey, cause, workerId, exitCode, namePrefix } = filter;
  const fields = {
    definition_id: definitionId,
    image,
    topic,
    concurrency_key: concurrencyKey,
    cause,
    ended_worker: workerId,
  };
  const conditions = Object.entries(fields).flatMap(([column, value]) =>
    value === undefined ? [] : [`${column} = ${bind(value, 'text')}`],
  );
  // The index of topic and image has a hash of the image: an entry of both texts could be too long.
  if (topic !== undefined && image !== undefined) {
    conditions.push(`hashtextextended(image, 0) = hashtextextended(${bind(image, 'text')}, 0)`);
  }
  if (exitCode !== undefined) conditions.push(`exit_code = ${bind(exitCode, 'smallint')}`);
  if (namePrefix !== undefined) conditions.push(nameCondition(bind(namePrefix, 'text')));
  return conditions;
}

/** SQL of the conditions on the end of a run. */
export function endedConditions(ended: TimeRange, bind: Bind): string[] {
  return TIME_BOUNDS.flatMap((bound) => {
    const time = ended[bound];
    return time ? [`finished_at ${OPERATORS[bound]} ${bind(time.toISOString(), 'timestamptz')}`] : [];
  });
}

/** The comparison of each bound. */
export const OPERATORS = { gte: '>=', lte: '<=', gt: '>', lt: '<' } as const satisfies Record<
  TimeBound,
  string
>;

/** SQL of whether a name begins with a text. No character sorts behind U+10FFFF. */
function nameCondition(prefix: string): string {
  return `(name collate "C" >= ${prefix} and name collate "C" < ${prefix} || chr(1114111))`;
}
