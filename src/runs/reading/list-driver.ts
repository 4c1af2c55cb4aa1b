import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import type { RunFilter } from './run-filter.js';

/** What the walk of a list reads: a group of terms, by its position; the index of a field; or all runs of an outcome. */
export type ListDriver = number | 'field' | 'outcome';

/** Runs of a condition that are counted, at most: one with as many is frequent. */
const COUNTED = 10_000;

/** SQL of whether a name begins with a text. No character sorts behind U+10FFFF. */
export function nameCondition(prefix: string): string {
  return `(name collate "C" >= ${prefix} and name collate "C" < ${prefix} || chr(1114111))`;
}

/**
 * The rarest condition of the filter, so that a list reads few runs in vain. Reads only where there is a choice, and a bounded
 * number of entries of indexes.
 */
export async function findDriver(manager: EntityManager, filter: RunFilter): Promise<ListDriver> {
  const { terms = [], namePrefix, definitionId, image, topic, concurrencyKey, cause, exitCode } = filter;
  const hasField = [definitionId, image, topic, concurrencyKey, cause, exitCode].some(
    (value) => value !== undefined,
  );
  if (namePrefix === undefined && (terms.length === 0 || (terms.length === 1 && !hasField))) {
    return terms.length > 0 ? 0 : 'field';
  }
  const params: unknown[] = [];
  const count = (source: string): string =>
    `(select count(*) from (select from ${source} limit ${COUNTED}) counted)::integer`;
  const counts = terms.map((group) => count(`run_terms where term = any($${params.push(group)}::text[])`));
  if (namePrefix !== undefined)
    counts.push(count(`runs where ${nameCondition(`$${params.push(namePrefix)}::text`)}`));
  const [row] = await rows<{ readonly counts: readonly number[] }>(
    manager,
    `select array[${counts.join(', ')}] as counts`,
    params,
  );
  const found = row?.counts ?? [];
  const least = Math.min(...found);
  if (hasField && least >= COUNTED) return 'field';
  if (least < COUNTED || terms.length > 0) {
    const rarest = found.indexOf(least);
    return rarest < terms.length ? rarest : 'field';
  }
  return 'outcome';
}
