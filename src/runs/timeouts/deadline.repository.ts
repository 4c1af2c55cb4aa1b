import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { RunDeadlineEntity } from '../../database/entities/queue.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute, rows } from '../../database/sql.js';

/** Channel on which every commit that sets deadlines tells in how many milliseconds the soonest of them is due. */
export const DEADLINE_CHANNEL = 'longshore_deadlines';

/** When time itself will next do something to a run; null: never, as it stands. */
export interface RunDeadline {
  readonly runId: string;
  readonly dueAt: Date | null;
}

const DEADLINES = new EntityTable(RunDeadlineEntity);
const SET_DEADLINES = DEADLINES.unnest(DEADLINES.fields);
const PUT = `with written as (
         insert into ${DEADLINES.name} (${DEADLINES.columns()})
         select ${DEADLINES.columns()}
           from ${SET_DEADLINES.sql}
             on conflict (run_id) do update
            set due_at = excluded.due_at
      returning due_at
       )
       select pg_notify(
                '${DEADLINE_CHANNEL}',
                greatest(0, ceil(extract(epoch from min(due_at) - clock_timestamp()) * 1000))::bigint::text
              )
         from written`;

/** SQL of the table `run_deadlines`: one row per run that time will do something to. The journal writes it. */
@Injectable()
export class DeadlineRepository {
  /** Sets deadlines of runs that the caller has locked or made, and has the commit announce the soonest. */
  async put(
    manager: EntityManager,
    deadlines: readonly { readonly runId: string; readonly dueAt: Date }[],
  ): Promise<void> {
    await execute(manager, PUT, SET_DEADLINES.params(deadlines));
  }

  /** Ids of runs whose deadline has passed at the time, the longest overdue first, a bounded number of them. */
  async listDue(manager: EntityManager, now: Date, limit: number): Promise<string[]> {
    const due = await rows<{ readonly runId: string }>(
      manager,
      `select run_id as "runId"
         from ${DEADLINES.name}
        where due_at <= $1::timestamptz
        order by due_at, run_id
        limit $2`,
      [now.toISOString(), limit],
    );
    return due.map(({ runId }) => runId);
  }

  /** Milliseconds until the soonest deadline, by the database's clock; negative when it has passed, null for none. */
  async nextDue(manager: EntityManager): Promise<number | null> {
    const [next] = await rows<{ readonly inMs: number | null }>(
      manager,
      `select (extract(epoch from min(due_at) - clock_timestamp()) * 1000)::double precision as "inMs"
         from ${DEADLINES.name}`,
    );
    return next?.inMs ?? null;
  }

  /**
   * Has runs looked at again later whose deadlines had passed at the time; deadlines that were set anew meanwhile
   * stay as they are. Rows that another transaction is writing are left to it, so this waits for nobody.
   */
  async postpone(manager: EntityManager, runIds: readonly string[], now: Date, until: Date): Promise<void> {
    await execute(
      manager,
      `update ${DEADLINES.name}
          set due_at = $3::timestamptz
        where run_id in (
                select run_id
                  from ${DEADLINES.name}
                 where run_id = any($1::uuid[])
                   and due_at <= $2::timestamptz
                   for update skip locked
              )`,
      [runIds, now.toISOString(), until.toISOString()],
    );
  }

  /** Forgets the deadlines of runs that are no more. */
  async remove(manager: EntityManager, runIds: readonly string[]): Promise<void> {
    await execute(
      manager,
      `delete from ${DEADLINES.name}
        where run_id = any($1::uuid[])`,
      [runIds],
    );
  }
}
