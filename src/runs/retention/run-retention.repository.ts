import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { inBatches } from '../../database/sql/in-batches.js';
import { execute, rows } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import type { TerminalState } from '../machine/run-state.js';

/**
 * Tables whose rows are removed with their run, by the column that names the run. Not among them: the audit log, which is
 * kept; idempotency keys, which expire by themselves, so that a repeated request does not create a second run; feeds (see
 * `lockDue`); logs, which a trigger on `runs` passes to the job that removes them; tags, which a trigger removes; rows of
 * `queue` and `executions`, which end with the run.
 */
const CHILD_TABLES: Readonly<Record<string, string>> = { events: 'run_id', attempts: 'run_id' };

/** No entry of a feed was recorded longer before the oldest one: it is longer than any transaction of the journal. */
const FEED_DISORDER = '1 hour';

/** A place in the list of ended runs of one state. */
export type EndedPlace = Pick<Run, 'createdAt' | 'id'>;

export interface EndedRun extends EndedPlace {
  /** Whether it ended before the given time. */
  readonly isDue: boolean;
  readonly events: number;
}

@Injectable()
export class RunRetentionRepository {
  /**
   * Runs of the state that were created before the time, oldest first, among them all that ended before it. Has the
   * predicate of the index `runs_by_outcome`. @param after end of the previous batch
   */
  listEnded(
    manager: EntityManager,
    state: TerminalState,
    before: Date,
    after: EndedPlace | null,
    limit: number,
  ): Promise<EndedRun[]> {
    return rows<EndedRun>(
      manager,
      `select id,
              created_at as "createdAt",
              finished_at < $2::timestamptz as "isDue",
              event_count as events
         from runs
        where outcome = $1::text
          and max_attempts > 0
          and created_at < $2::timestamptz
          ${after ? 'and (created_at, id) > ($4::timestamptz, $5::uuid)' : ''}
        order by created_at, id
        limit $3::integer`,
      [state, before.toISOString(), limit, ...(after ? [after.createdAt.toISOString(), after.id] : [])],
    );
  }

  /**
   * Locks those of the runs that can be removed: they are still in the state, ended before the time, and none of their
   * events is on a feed, which the oldest entry of the feed tells. Skips runs that others have locked.
   */
  async lockDue(
    manager: EntityManager,
    state: TerminalState,
    before: Date,
    ids: readonly string[],
  ): Promise<string[]> {
    const locked = await rows<{ id: string }>(
      manager,
      `select r.id
         from runs r
        where r.id = any($1::uuid[])
          and r.outcome = $2::text
          and r.finished_at < $3::timestamptz
          and ((select oldest_at from feed_topics where topic = r.topic)
               <= (
                 select t + interval '${FEED_DISORDER}'
                   from events
                  where run_id = r.id
                  order by index desc
                  limit 1
               )) is not true
          for update of r skip locked`,
      [ids, state, before.toISOString()],
    );
    return locked.map(({ id }) => id);
  }

  /** Removes locked runs with all that belongs to them. @param limit rows of a child table per statement */
  async remove(manager: EntityManager, ids: readonly string[], limit: number): Promise<void> {
    for (const [table, column] of Object.entries(CHILD_TABLES)) {
      await inBatches(limit, undefined, () =>
        execute(
          manager,
          `delete from ${table}
            where ctid = any(array(
                    select ctid
                      from ${table}
                     where ${column} = any($1::uuid[])
                     limit $2::integer
                  ))`,
          [ids, limit],
        ),
      );
    }
    await execute(manager, `delete from runs where id = any($1::uuid[])`, [ids]);
  }
}
