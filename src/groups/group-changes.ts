import type { EntityManager } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { GroupEntity, type DependencyEntity } from '../database/entities/group.entity.js';
import { sendNotice, shortRunId } from '../database/notices/commit-notice.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, rows, unnestRows, type SqlExecutor } from '../database/sql/sql.js';
import type { Dependency } from '../runs/machine/run.js';

const GROUPS = new EntityTable(GroupEntity);

/** A group that is to be stored. */
export type NewGroup = Pick<GroupEntity, (typeof GIVEN)[number]>;

/** A dependency as it was read. */
export type SeenEdge = Pick<DependencyEntity, 'id' | 'outcome' | 'since'>;

const GIVEN = [
  'id',
  'name',
  'labels',
  'onFailure',
  'maxParallel',
  'maxFailed',
  'size',
  'arrayBody',
  'sameIndex',
  'scheduleId',
  'scheduleTime',
  'idempotencyKey',
  'requestHash',
  'createdBy',
  'createdByName',
  'createdAt',
  'updatedAt',
  'dueAt',
] as const satisfies readonly (keyof GroupEntity)[];
const NEW = GROUPS.unnest(GIVEN);

/** Stores new groups, in the transaction of their members. */
export async function insertGroups(manager: EntityManager, groups: readonly NewGroup[]): Promise<void> {
  const values = groups.map((group) => ({
    ...group,
    labels: group.labels && stringifyJson(group.labels),
    arrayBody: group.arrayBody && stringifyJson(group.arrayBody),
    sameIndex: group.sameIndex && stringifyJson(group.sameIndex),
  }));
  await execute(
    manager,
    `insert into ${GROUPS.name} (${GROUPS.columns(GIVEN)})
     select ${GROUPS.columns(GIVEN, 'v')}
       from ${NEW.sql}`,
    NEW.params(values),
  );
  if (groups.some(({ dueAt }) => dueAt !== null)) await sendNotice(manager, { groupWork: true });
  const labelled = groups.filter(({ labels }) => labels !== null);
  if (labelled.length === 0) return;
  await execute(
    manager,
    `insert into group_terms (group_id, term, created_at)
     select g.id, t.term, g.created_at
       from ${GROUPS.name} g
      cross join lateral (
              select unnest(array['label:' || key, 'label:' || key || '=' || value]) as term from json_each_text(g.labels)
            ) t
      where g.id = any($1::uuid[])`,
    [labelled.map(({ id }) => id)],
  );
}

/** Locks dependencies. @returns the ids of those that are as they were seen: what was planned by others must be planned anew */
export async function lockEdges(
  manager: EntityManager,
  seen: readonly SeenEdge[],
): Promise<ReadonlySet<string>> {
  if (seen.length === 0) return new Set();
  const edges = unnestRows(
    { id: 'bigint', outcome: 'text', since: 'bigint' },
    seen.map(({ id, outcome, since }) => ({ id, outcome, since })),
  );
  const locked = await rows<{ id: string }>(
    manager,
    `select d.id
       from dependencies d
       join ${edges.sql} on v.id = d.id
      where (d.outcome, d.since) is not distinct from (v.outcome, v.since)
      order by d.id
        for update of d`,
    edges.params,
  );
  return new Set(locked.map(({ id }) => id));
}

/** Stops a group: no more members are made, and the open ones are cancelled. @returns null: it has ended, or was stopped before */
export async function stopGroup(
  executor: SqlExecutor,
  id: string,
  cause: NonNullable<GroupEntity['stopCause']>,
  reason: string,
): Promise<GroupEntity | null> {
  const [stopped] = await rows<GroupEntity>(
    executor,
    `with stopped as (
       update ${GROUPS.name} g
          set stop_cause = $2::text,
              reason = $3::text,
              waits_for = null,
              updated_at = date_trunc('milliseconds', clock_timestamp()),
              due_at = case when g.pending + g.assigned + g.running > 0 then clock_timestamp() end,
              state = case
                when g.pending + g.assigned + g.running > 0 then 'open'
                when g.failed > 0 then 'failed'
                else 'cancelled'
              end,
              ended_at = case
                when g.pending + g.assigned + g.running = 0 then date_trunc('milliseconds', clock_timestamp())
              end,
              end_order = case when g.pending + g.assigned + g.running = 0 then next_commit_order() else g.end_order end
        where g.id = $1::uuid
          and g.state = 'open'
          and (g.stop_cause is null or g.due_at is null)
    returning g.*
     ),
     ended as (
       insert into dependency_ends (parent_id, is_group, state, reopens)
       select s.id, true, s.state, false
         from stopped s
        where s.state <> 'open'
          and s.dependents > 0
     )
     select ${GROUPS.select('s')}
       from stopped s`,
    [id, cause, reason],
  );
  if (stopped) await sendNotice(executor, { runs: [shortRunId(id)], groupWork: true });
  return stopped ?? null;
}

/**
 * Lets an array have members when all have ended that it waits for; unless one ended otherwise than it needs, or it is stopped for
 * another cause. The rows of what it waits for are locked first, so that ends which others tell it of count.
 */
export async function openArray(
  manager: EntityManager,
  id: string,
  cause: 'dependency' | 'any' | null,
): Promise<void> {
  await execute(manager, `select id from dependencies where child_group = $1::uuid order by id for update`, [
    id,
  ]);
  const opened = await execute(
    manager,
    `update groups g
        set stop_cause = null,
            reason = null,
            state = 'open',
            ended_at = null,
            endings = g.endings + case when g.state = 'open' then 0 else 1 end,
            waits_for = nullif(d.open, 0),
            due_at = case when d.open = 0 then clock_timestamp() end
       from (
              select count(*) filter (where outcome is null) as open, count(*) filter (where outcome = 'broken') as broken
                from dependencies
               where child_group = $1::uuid
            ) d
      where g.id = $1::uuid
        and g.created < g.size
        and d.broken = 0
        and ($2::text = 'any' or g.stop_cause = $2::text or g.stop_cause is null and g.waits_for is not null)`,
    [id, cause],
  );
  if (opened > 0) await sendNotice(manager, { groupWork: true });
}

/** Why an array will never have members, for people. */
export function whyStopped({ parentId, isGroup }: Pick<Dependency, 'parentId' | 'isGroup'>): string {
  return `${isGroup ? 'Group' : 'Run'} ${parentId} has ended otherwise than depends_on needs it`;
}
