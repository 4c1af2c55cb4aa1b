import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import { isInExecution } from '../machine/run-state.js';
import { endedSince, type Bind } from './list-times.js';
import type { RunFilter } from './run-filter.js';

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
  const { terms = [], namePrefix, state } = filter;
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const sources = terms.map((group) => `run_terms where term = any(${bind(group, 'text[]')})`);
  const fields = fieldConditions(filter, bind);
  if (fields.length > 0) sources.push(`runs where ${fields.join(' and ')}`);
  const isExecuting = state !== undefined && isInExecution(state);
  const hasChoice =
    sources.length > 1 || namePrefix !== undefined || (terms.length > 0 && endedSince(filter) !== undefined);
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
  // The index of names is in the order of names: all runs of a frequent beginning would be sorted.
  const isFrequentName = !isRare && fields.length === 1 && namePrefix !== undefined;
  return { reads: isFrequentName ? 'outcome' : 'field', isRare };
}

/**
 * SQL of the conditions on fields of `runs` that stay as they are while a run is in one outcome. A worker is that of runs that have
 * ended; those in execution are found by `executions`.
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

/** SQL of whether a name begins with a text. No character sorts behind U+10FFFF. */
function nameCondition(prefix: string): string {
  return `(name collate "C" >= ${prefix} and name collate "C" < ${prefix} || chr(1114111))`;
}
