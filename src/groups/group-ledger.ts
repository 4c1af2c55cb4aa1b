import type { EntityManager } from 'typeorm';
import { execute, plainArray, rows, unnestRows } from '../database/sql/sql.js';
import type { BatchDone, BatchLedger } from '../runs/journal/command.js';
import type { AwaitedTime, Dependency } from '../runs/machine/run.js';
import { insertDependencies, SINCE_NOW, toDependency } from '../runs/storage/groups.js';
import {
  insertGroups,
  lockEdges,
  openArray,
  stopGroup,
  whyStopped,
  type NewGroup,
  type SeenEdge,
} from './group-changes.js';

/** First half of the advisory locks of arrays that get members; the second is a hash of the id. */
const MEMBERS_LOCK = 738_105_222;

/** What a commit does to a group. */
export type GroupRecord =
  | {
      readonly kind: 'create';
      readonly group: NewGroup;
      /** What an array waits for. */
      readonly dependsOn: readonly Dependency[];
      readonly awaitedTimes: readonly AwaitedTime[];
    }
  /** Members of an array, from this index on. */
  | { readonly kind: 'members'; readonly groupId: string; readonly from: number }
  /** Members are cancelled. */
  | { readonly kind: 'stop'; readonly groupId: string }
  /** It is cancelled as a user does it; its members are later. */
  | { readonly kind: 'cancel'; readonly groupId: string; readonly reason: string }
  /** Members are opened again; these dependencies count as open. */
  | {
      readonly kind: 'retry';
      readonly groupId: string;
      readonly reopened: readonly string[];
      /** Dependencies of the members by which it was decided. */
      readonly seen: readonly SeenEdge[];
    };

type Record<K extends GroupRecord['kind']> = Extract<GroupRecord, { kind: K }>;

/** What an array waits for, with what is known of it at the commit: rows of runs are locked by `depend`, those of groups here. */
const WAIT = `with asked as materialized (
         select v.*,
                case when v.is_group then g.state else r.state end as state,
                case when v.is_group then g.state is distinct from 'open' else r.id is null or r.finished_at is not null end as has_ended
           from unnest($2::uuid[], $3::boolean[], $4::text[]) as v (parent_id, is_group, need)
           left join runs r on not v.is_group and r.id = v.parent_id
           left join groups g on v.is_group and g.id = v.parent_id
       ),
       waits as (
         insert into dependencies (child_group, parent_id, is_group, need, since, outcome)
         select $1::uuid, a.parent_id, a.is_group, a.need, ${SINCE_NOW},
                case
                  when not a.has_ended then null
                  when a.need = 'ended' or a.need = lower(a.state) then 'met'
                  else 'broken'
                end
           from asked a
      returning parent_id, is_group, outcome
       ),
       waiting as (
         update groups
            set waits_for = nullif((select count(*) from waits where outcome is null), 0)
          where id = $1::uuid
       )
       select parent_id as "parentId", is_group as "isGroup"
         from waits
        where outcome = 'broken'
        limit 1`;

/** Groups as the journal makes them, and changes their members. */
class GroupLedger implements BatchLedger<GroupRecord> {
  async lock(manager: EntityManager, records: readonly GroupRecord[]): Promise<ReadonlySet<GroupRecord>> {
    const pages = records.filter((record): record is Record<'members'> => record.kind === 'members');
    const edges = await lockEdges(
      manager,
      records.flatMap((record) => (record.kind === 'retry' ? record.seen : [])),
    );
    const stopped = await stoppedOf(
      manager,
      records.flatMap((record) => (record.kind === 'stop' ? [record.groupId] : [])),
    );
    const due = new Set<GroupRecord>(
      records.filter((record) => {
        if (record.kind === 'retry') return record.seen.every(({ id }) => edges.has(id));
        return record.kind === 'stop' ? stopped.has(record.groupId) : record.kind !== 'members';
      }),
    );
    for (const page of await nextPages(manager, pages)) due.add(page);
    return due;
  }

  seenBy(record: GroupRecord): readonly string[] {
    return record.kind === 'retry' ? record.seen.map(({ id }) => id) : [];
  }

  async write(manager: EntityManager, done: readonly BatchDone<GroupRecord>[]): Promise<void> {
    const records = done.map(({ record }) => record);
    const created = records.filter((record): record is Record<'create'> => record.kind === 'create');
    if (created.length > 0)
      await insertGroups(
        manager,
        created.map(({ group }) => group),
      );
    for (const { group, dependsOn, awaitedTimes } of created) {
      if (dependsOn.length > 0) await wait(manager, group.id, dependsOn);
      if (awaitedTimes.length > 0) await waitForTimes(manager, group.id, awaitedTimes);
    }
    for (const record of records) {
      if (record.kind === 'retry') await reopen(manager, record);
      if (record.kind === 'cancel') await stopGroup(manager, record.groupId, 'user', record.reason);
    }
  }
}

/**
 * The pages that are the next ones of their arrays, as no other transaction makes members of these until this one ends. Rows of groups are
 * not locked: those who end members lock these after the concurrency keys, which new members change later.
 */
async function nextPages(
  manager: EntityManager,
  pages: readonly Record<'members'>[],
): Promise<readonly Record<'members'>[]> {
  if (pages.length === 0) return [];
  const taken = await rows<{ id: string }>(
    manager,
    `select id
       from unnest($1::uuid[]) as v (id)
      where pg_try_advisory_xact_lock(${MEMBERS_LOCK}, hashtext(id::text))`,
    [plainArray(pages.map(({ groupId }) => groupId))],
  );
  const found = await rows<{ id: string; created: number }>(
    manager,
    `select id, created
       from groups
      where id = any($1::uuid[])
        and stop_cause is null
        and waits_for is null`,
    [plainArray(taken.map(({ id }) => id))],
  );
  return found.flatMap(
    ({ id, created }) => pages.find(({ groupId, from }) => groupId === id && from === created) ?? [],
  );
}

/** Those of the groups that are stopped: a retry may have opened one again. */
async function stoppedOf(manager: EntityManager, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const found = await rows<{ id: string }>(
    manager,
    `select id from groups where id = any($1::uuid[]) and stop_cause is not null`,
    [plainArray(ids)],
  );
  return new Set(found.map(({ id }) => id));
}

async function wait(manager: EntityManager, id: string, dependsOn: readonly Dependency[]): Promise<void> {
  const groups = dependsOn.filter(({ isGroup }) => isGroup).map(({ parentId }) => parentId);
  if (groups.length > 0)
    await execute(
      manager,
      `update groups set dependents = dependents + 1 where id in (select id from groups where id = any($1::uuid[]) order by id for update)`,
      [plainArray(groups)],
    );
  const [broken] = await rows<{ parentId: string; isGroup: boolean }>(manager, WAIT, [
    id,
    dependsOn.map(({ parentId }) => parentId),
    dependsOn.map(({ isGroup }) => isGroup),
    dependsOn.map(({ need }) => need),
  ]);
  if (broken) await stopGroup(manager, id, 'dependency', whyStopped(broken));
}

async function waitForTimes(
  manager: EntityManager,
  childGroup: string,
  times: readonly AwaitedTime[],
): Promise<void> {
  await insertDependencies(
    manager,
    times.map((time) => toDependency({ childRun: null, childGroup }, time)),
  );
  await execute(
    manager,
    `update groups
        set waits_for = coalesce(waits_for, 0) + $2::integer
      where id = $1::uuid
        and stop_cause is null`,
    [childGroup, times.length],
  );
}

/** Lets members be made again that were not, and takes back what was known of the ends of members that are opened again. */
async function reopen(manager: EntityManager, { groupId, reopened }: Record<'retry'>): Promise<void> {
  await openArray(manager, groupId, 'any');
  await execute(
    manager,
    `update groups
        set stop_cause = null,
            reason = null
      where id = $1::uuid
        and created = size`,
    [groupId],
  );
  if (reopened.length === 0) return;
  const edges = unnestRows(
    { id: 'bigint' },
    reopened.map((id) => ({ id })),
  );
  await execute(
    manager,
    `update dependencies d
        set outcome = null,
            since = ${SINCE_NOW}
       from ${edges.sql}
      where d.id = v.id`,
    edges.params,
  );
}

export const GROUP_LEDGER = new GroupLedger();
