import { GroupEntity } from '../database/entities/group.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import type { ListGroupsQueryDto } from './dto/group-requests.dto.js';

const GROUPS = new EntityTable(GroupEntity);

/** Conditions that must all hold. */
export interface GroupFilter extends Pick<ListGroupsQueryDto, 'state' | 'name' | 'schedule'> {
  /** Terms of labels by key: one of each list. */
  readonly terms: readonly (readonly string[])[];
}

/** Behind which a page begins. */
export type GroupPlace = Pick<GroupEntity, 'id' | 'createdAt'>;

interface Statement {
  readonly sql: string;
  readonly params: readonly unknown[];
}

/** Groups up to which it is counted how many meet a condition: a list by one that more meet finds a page soon. */
const COUNTED = 1_000;

const COLUMNS = { state: 'state', name: 'name', schedule: 'schedule_id' } as const;

/** Makes a statement whose parameters are added as they are named. */
function statement(write: (add: (value: unknown) => string) => string): Statement {
  const params: unknown[] = [];
  const sql = write((value) => `$${params.push(value)}`);
  return { sql, params };
}

/** The columns with a condition, and what they must be. */
function columnsOf(filter: GroupFilter): (readonly [column: string, value: string])[] {
  return (['state', 'name', 'schedule'] as const).flatMap((field) => {
    const value = filter[field];
    return value === undefined ? [] : [[COLUMNS[field], value] as const];
  });
}

/** A row with the number of those that are read, as far as it is worth knowing. */
function countOf(from: string, key: number): string {
  return `select ${key} as key, (select count(*) from (select from ${from} limit ${COUNTED}) counted) as count`;
}

/** Finds the key of labels that the fewest groups meet, by its number, -1 for a column; null: there is nothing to choose from. */
export function countConditions(filter: GroupFilter): Statement | null {
  const columns = columnsOf(filter);
  if (filter.terms.length === 0 || columns.length + filter.terms.length < 2) return null;
  return statement((add) => {
    const counts = [
      ...columns.map(([column, value]) =>
        countOf(`${GROUPS.name} where ${column} = ${add(value)}::text`, -1),
      ),
      ...filter.terms.map((terms, key) =>
        countOf(`group_terms where term = any(${add(terms)}::text[])`, key),
      ),
    ];
    return `select key from (${counts.join(' union all ')}) c order by count, key limit 1`;
  });
}

/** Reads a page, the newest first. @param rarest the key of labels by which groups are looked up; -1: none of them; undefined: the first */
export function listGroups(
  limit: number,
  place: GroupPlace | null,
  filter: GroupFilter,
  rarest = 0,
): Statement {
  const terms = filter.terms[rarest];
  return statement((add) => {
    const most = add(limit);
    const others = filter.terms.filter((one) => one !== terms);
    const conditions = [
      ...columnsOf(filter).map(([column, value]) => `g.${column} = ${add(value)}::text`),
      ...others.map(
        (one) =>
          `exists (select from group_terms o where o.group_id = g.id and o.term = any(${add(one)}::text[]))`,
      ),
    ];
    const key = terms ? 't.created_at, t.group_id' : 'g.created_at, g.id';
    if (place)
      conditions.push(
        `(${key}) < (${add(place.createdAt.toISOString())}::timestamptz, ${add(place.id)}::uuid)`,
      );
    const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`;
    const order = (columns: string): string =>
      `order by ${columns.replaceAll(',', ' desc,')} desc limit ${most}::integer`;
    if (!terms)
      return `select ${GROUPS.select('g')} from ${GROUPS.name} g ${where} ${order('g.created_at, g.id')}`;
    return `select ${GROUPS.select('g')}
         from unnest(${add(terms)}::text[]) as label (term)
        cross join lateral (
          select g.*
            from group_terms t
            join ${GROUPS.name} g on g.id = t.group_id
           where t.term = label.term
             ${conditions.map((condition) => `and ${condition}`).join(' ')}
           ${order('t.created_at, t.group_id')}
        ) g
        ${order('g.created_at, g.id')}`;
  });
}
