import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { whenAlone } from '../database/advisory-locks.js';
import { paced, inBatches } from '../database/sql/in-batches.js';
import { shortRunId } from '../database/notices/commit-notice.js';
import { Settings } from '../config/settings.js';
import { announceCommit, StateCountDelta } from './counts/run-counts.repository.js';
import { TERMINAL_STATES, type TerminalState } from './machine/run-state.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../common/scheduling/scheduled-job.js';
import { execute, rows } from '../database/sql/sql.js';
import { scheduleRemoval } from './storage/artifacts.js';
import type { Run } from './machine/run.js';

/**
 * Tables whose rows are removed with their run. Not among them: the audit log, which is
 * kept; idempotency keys, which expire by themselves, so that a repeated request does not create a second run; feeds (see
 * `lockDue`); logs, which a trigger on `runs` passes to the job that removes them; tags, which a trigger removes; what the run
 * depends on, which its key removes; rows of `queue` and `executions`, which end with the run.
 */
const CHILD_TABLES = ['events', 'attempts'] as const;

/** No entry of a feed was recorded longer before the oldest one: it is longer than any transaction of the journal. */
const FEED_DISORDER = '1 hour';

/** A place in the list of ended runs of one state. */
type EndedPlace = Pick<Run, 'createdAt' | 'id'>;

interface EndedRun extends EndedPlace {
  /** Whether it ended before the given time. */
  readonly isDue: boolean;
  readonly events: number;
  /** Whether it may have objects in the store of files, which are removed before it. */
  readonly hasFiles: boolean;
}

const DAY_MS = 86_400_000;
const RETENTION_LOCK = '2954417083366102';

export const RUNS_PER_BATCH = 500;

/** Runs, and as many of each other kind, that `count` looks at, at most. */
export const MAX_COUNTED = 100_000;

/** The body of an array may be large. */
const GROUPS_PER_BATCH = 100;

/** Whether a run `r` is of a group that is not removed yet. It is removed before its members, so that no retry finds a part of them. */
// As a scalar: the planner may read all groups for `exists`.
const IS_IN_GROUP = '(select true from groups g where g.id = r.group_id) is true';

/** Whether an event of a run `r` is on a feed, which the oldest entry of the feed tells. */
const IS_ON_FEED = `((select oldest_at from feed_topics where topic = r.topic)
               <= (
                 select t + interval '${FEED_DISORDER}'
                   from events
                  where run_id = r.id
                  order by index desc
                  limit 1
               )) is true`;

/** Timeline entries after which a transaction takes no further run, and that one statement removes at most. */
export const EVENTS_PER_BATCH = 20_000;

/** What the next pass would remove. */
export interface DueRuns {
  readonly runs: number;
  /** Of their JSON. */
  readonly bytes: number;
  readonly events: number;
  /** Artifacts of theirs in the service's own store. */
  readonly objects: number;
  readonly objectBytes: number;
  /** Whether there may be more: not all runs were looked at. */
  readonly isCut: boolean;
}

interface Due {
  readonly state: TerminalState;
  /** They ended before this time. */
  readonly before: Date;
  readonly now: Date;
}

interface Batch {
  readonly removed: number;
  /** Where the next batch continues; null at the end. */
  readonly end: EndedPlace | null;
}

/** Removes runs and groups that ended before the retention time, with everything that belongs to them. */
@Injectable()
export class RunRetention {
  constructor(
    private readonly dataSource: DataSource,
    @Inject(Settings) private readonly settings: Pick<Settings, 'runRetentionDays'>,
  ) {}

  @ScheduledJob({
    name: 'run_retention',
    description: 'removes runs and groups that ended before the retention time',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /**
   * Removes all runs that are due, in short transactions with pauses between them, by one process at a time.
   * @returns how many runs were removed
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = this.#before(now);
    if (before === null) return 0;
    let removed = 0;
    await this.#removeGroups(before, stop);
    for (const state of TERMINAL_STATES) removed += await this.#remove({ state, before, now }, stop);
    return removed;
  }

  /**
   * What a pass would remove, with members of the groups that it would remove; nothing without a retention.
   * @param artifactsSince artifacts that were left before are not counted; null: all are
   */
  async count(now: Date, artifactsSince: Date | null): Promise<DueRuns> {
    const before = this.#before(now);
    if (before === null) return { runs: 0, bytes: 0, events: 0, objects: 0, objectBytes: 0, isCut: false };
    const [due] = await rows<Record<Exclude<keyof DueRuns, 'isCut'> | 'listed', string>>(
      this.dataSource,
      `with listed as materialized (
         select r.*
           from unnest($1::text[]) as s (state)
          cross join lateral (
                  select id, size, event_count, has_files, finished_at, group_id, topic
                    from runs
                   where outcome = s.state
                     and max_attempts > 0
                     and created_at < $2::timestamptz
                   order by created_at, id
                   limit $3::integer
                ) r
          limit $3::integer
       ),
       due as materialized (
         select id, size, event_count, has_files
           from listed r
          where finished_at < $2::timestamptz
            and (
                  select g.created_at < $2::timestamptz and coalesce(g.ended_at < $2::timestamptz, false)
                    from groups g
                   where g.id = r.group_id
                ) is not false
            and not (${IS_ON_FEED})
       )
       select count(*) as runs, coalesce(sum(size), 0) as bytes, coalesce(sum(event_count), 0) as events,
              coalesce(sum(f.objects), 0) as objects, coalesce(sum(f.bytes), 0) as "objectBytes",
              (select count(*) from listed) as listed
         from due d
         left join lateral (
                select count(*) as objects, sum(bytes) as bytes
                  from artifacts
                 where d.has_files
                   and run_id = d.id
                   and state = 'stored'
                   and store is null
                   and at >= coalesce($4::timestamptz, '-infinity')
              ) f on true`,
      [[...TERMINAL_STATES], before.toISOString(), MAX_COUNTED, artifactsSince?.toISOString() ?? null],
    );
    const of = (field: Exclude<keyof DueRuns, 'isCut'> | 'listed'): number => Number(due?.[field]);
    return {
      runs: of('runs'),
      bytes: of('bytes'),
      events: of('events'),
      objects: of('objects'),
      objectBytes: of('objectBytes'),
      isCut: of('listed') === MAX_COUNTED,
    };
  }

  /** The time before which runs that are due have ended; null: there is no retention. */
  #before(now: Date): Date | null {
    const { runRetentionDays } = this.settings;
    return runRetentionDays === 0 ? null : new Date(now.getTime() - runRetentionDays * DAY_MS);
  }

  /** Removes groups; their members, which ended before, are due from then on. Reads groups that were created before the time, oldest first. */
  async #removeGroups(before: Date, stop: AbortSignal | undefined): Promise<void> {
    await inBatches(GROUPS_PER_BATCH, stop, () =>
      paced(stop, async () => {
        const removed = await whenAlone(this.dataSource, RETENTION_LOCK, (manager) =>
          execute(
            manager,
            `delete from groups
              where id in (
                      select id
                        from groups
                       where created_at < $1::timestamptz
                         and ended_at < $1::timestamptz
                       order by created_at, id
                       limit ${GROUPS_PER_BATCH}
                         for update skip locked
                    )`,
            [before.toISOString()],
          ),
        );
        return removed ?? 0;
      }),
    );
  }

  async #remove(due: Due, stop: AbortSignal | undefined): Promise<number> {
    let place: EndedPlace | null = null;
    let removed = 0;
    do {
      if (stop?.aborted === true) break;
      const after: EndedPlace | null = place;
      const batch: Batch | null = await paced(stop, () =>
        whenAlone(this.dataSource, RETENTION_LOCK, (manager) => this.#removeBatch(manager, due, after)),
      );
      if (!batch) return removed;
      removed += batch.removed;
      place = batch.end;
    } while (place);
    return removed;
  }

  async #removeBatch(
    manager: EntityManager,
    { state, before, now }: Due,
    after: EndedPlace | null,
  ): Promise<Batch> {
    const listed = await this.listEnded(manager, state, before, after, RUNS_PER_BATCH);
    const taken = bounded(listed);
    const due = taken.filter(({ isDue, hasFiles }) => isDue && !hasFiles).map(({ id }) => id);
    const withFiles = taken.filter(({ isDue, hasFiles }) => isDue && hasFiles).map(({ id }) => id);
    if (withFiles.length > 0) await scheduleRemoval(manager, withFiles, now);
    const ids = due.length > 0 ? await this.lockDue(manager, state, before, due) : [];
    if (ids.length > 0) {
      await this.remove(manager, ids, EVENTS_PER_BATCH);
      const delta = new StateCountDelta();
      delta.remove(state, ids.length);
      await announceCommit(manager, delta, now, { runs: ids.map(shortRunId) });
    }
    const isLast = taken.length === listed.length && listed.length < RUNS_PER_BATCH;
    return {
      removed: ids.length,
      end: isLast ? null : (taken.at(-1) ?? null),
    };
  }

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
              finished_at < $2::timestamptz and not (${IS_IN_GROUP}) as "isDue",
              event_count as events,
              has_files is true as "hasFiles"
         from runs r
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
   * Locks those of the runs that can be removed: they are still in the state, ended before the time, are in no group, and none of their
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
          and r.has_files is null
          and not (${IS_IN_GROUP})
          and not (${IS_ON_FEED})
          for update of r skip locked`,
      [ids, state, before.toISOString()],
    );
    return locked.map(({ id }) => id);
  }

  /** Removes locked runs with all that belongs to them. @param limit rows of a child table per statement */
  async remove(manager: EntityManager, ids: readonly string[], limit: number): Promise<void> {
    for (const table of CHILD_TABLES) {
      await inBatches(limit, undefined, () =>
        execute(
          manager,
          `delete from ${table}
            where ctid = any(array(
                    select ctid
                      from ${table}
                     where run_id = any($1::uuid[])
                     limit $2::integer
                  ))`,
          [ids, limit],
        ),
      );
    }
    await execute(manager, `delete from runs where id = any($1::uuid[])`, [ids]);
  }
}

/** The first runs until those that are due have EVENTS_PER_BATCH timeline entries; at least one. */
function bounded(listed: readonly EndedRun[]): readonly EndedRun[] {
  let events = 0;
  const end = listed.findIndex((run) => {
    if (run.isDue) events += run.events;
    return events >= EVENTS_PER_BATCH;
  });
  return end === -1 ? listed : listed.slice(0, end + 1);
}
