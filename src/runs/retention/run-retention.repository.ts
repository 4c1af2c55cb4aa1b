import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { inBatches } from '../../database/in-batches.js';
import { execute, rows } from '../../database/sql.js';
import type { TerminalState } from '../machine/run-state.js';

/**
 * Tables with rows that belong to a run and go with it, by the column that names the run. Not among them: the audit log,
 * which outlives runs; idempotency keys, which go by their own time, so that a request that is sent again finds no run
 * rather than making a second one; feeds, on which a run's events must not be any more (see `lockDue`); logs, which a
 * trigger on `runs` hands to the job that removes them.
 */
const CHILD_TABLES: Readonly<Record<string, string>> = {
  events: 'run_id',
  attempts: 'run_id',
};

/** Where a run that has ended stands among those of its state. */
export interface EndedPlace {
  readonly createdAt: Date;
  readonly id: string;
}

/** A run that has ended. */
export interface EndedRun extends EndedPlace {
  /** True when it ended before the time asked about. */
  readonly isDue: boolean;
  /** Entries of its timeline. */
  readonly events: number;
}

/** SQL of the retention of runs. */
@Injectable()
export class RunRetentionRepository {
  /**
   * Runs of the state that were created before the time, those created first first. None that ended before it is
   * missing, as every run ends after it was created. They are a stretch of the index of the lists by state, whose
   * predicate has to be said here as there.
   * @param after where the stretch before this one ended; null for the beginning
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
        where state = $1::text
          and max_attempts > 0
          and created_at < $2::timestamptz
          ${after ? 'and (created_at, id) > ($4::timestamptz, $5::uuid)' : ''}
        order by created_at, id
        limit $3::integer`,
      [state, before.toISOString(), limit, ...(after ? [after.createdAt.toISOString(), after.id] : [])],
    );
  }

  /**
   * Locks those of the runs that are to be removed: they are still in the state, ended before the time, and none of
   * their events is on a feed. What others hold is passed over. While a run is locked, nothing can happen to it.
   *
   * An entry of a feed has the time of its event, so the feeds' index by time leads from an event to its entry.
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
          and r.state = $2::text
          and r.finished_at < $3::timestamptz
          and (r.topic is null
               or not exists (
                 select 1
                   from events e
                   join feed_entries f on f.recorded_at = e.t and f.run_id = e.run_id
                  where e.run_id = r.id
               ))
          for update of r skip locked`,
      [ids, state, before.toISOString()],
    );
    return locked.map(({ id }) => id);
  }

  /**
   * Removes runs that the transaction has locked, and everything that belongs to them.
   * @param limit rows of a child table that one statement removes at most, so that none takes long
   */
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
