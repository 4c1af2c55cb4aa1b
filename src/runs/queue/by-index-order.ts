import type { EntityManager } from 'typeorm';
import { execute } from '../../database/sql/sql.js';

const SETTINGS = ['enable_seqscan', 'enable_bitmapscan'];
const setAll = (value: string): string =>
  `select ${SETTINGS.map((name) => `set_config('${name}', '${value}', true)`).join(', ')}`;
const OFF = setAll('off');
const ON = setAll('on');

/**
 * Sends a statement whose parts read the first rows of an index. The planner knows averages only: without this it reads and
 * sorts all rows of a tag or key, which may have a million. @param manager in a transaction
 */
export async function byIndexOrder<T>(manager: EntityManager, send: () => Promise<T>): Promise<T> {
  const [, result] = await Promise.all([execute(manager, OFF), send(), execute(manager, ON)]);
  return result;
}
