import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { ScheduleEntity, type FireOutcome } from '../../database/entities/schedule.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows } from '../../database/sql/sql.js';

const SCHEDULES = new EntityTable(ScheduleEntity);

/** A dependency on a time of a schedule of which it is known, or will be, what became of it. */
export interface FoundTime {
  readonly id: string;
  /** Of the dependency. */
  readonly since: string;
  readonly childRun: string | null;
  readonly childGroup: string | null;
  readonly scheduleId: string;
  readonly nominalAt: Date;
  /** Milliseconds until it is known, unless the schedule is resumed before; 0: it is. */
  readonly inMs: number;
  readonly isDeleted: boolean;
  /** Null, as what follows: there is no entry. */
  readonly outcome: FireOutcome | null;
  readonly reason: string | null;
  readonly runId: string | null;
  readonly groupId: string | null;
}

/** SQL of what waits for times of schedules. */
@Injectable()
export class AwaitedTimeRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Those of the schedules that exist. */
  find(ids: readonly string[], manager?: EntityManager): Promise<ScheduleEntity[]> {
    return rows(
      manager ?? this.dataSource,
      `select ${SCHEDULES.select('s')}
         from ${SCHEDULES.name} s
        where s.id = any($1::text[])`,
      [ids],
    );
  }

  /** Times between two, from before each schedule was made or got other times, that have an entry; those of triggers do not count. */
  listEarlier(
    ids: readonly string[],
    from: Date,
    until: Date,
    limit: number,
  ): Promise<{ readonly scheduleId: string; readonly nominalAt: Date }[]> {
    return rows(
      this.dataSource,
      `select s.id as "scheduleId", f.nominal_at as "nominalAt"
         from ${SCHEDULES.name} s
        cross join lateral (
          select one.nominal_at
            from schedule_fires one
           where one.schedule_id = s.id
             and one.nominal_at between $2::timestamptz and least(s.times_since, $3::timestamptz)
             and one.outcome <> 'skipped_missed'
             and one.kind <> 'trigger'
           union all
          select one.nominal_at
            from schedule_fires one
           where one.schedule_id = s.id
             and one.nominal_at between $2::timestamptz and least(s.times_since, $3::timestamptz)
             and one.outcome = 'skipped_missed'
           limit $4::integer
        ) f
        where s.id = any($1::text[])`,
      [ids, from.toISOString(), until.toISOString(), limit],
    );
  }

  /**
   * What waits for times whose schedule has accounted for them, or never will: it is past them, was deleted, or they pass in its pause. Those
   * that are known come first.
   */
  listKnown(limit: number): Promise<FoundTime[]> {
    return rows(
      this.dataSource,
      `select d.id, d.since, d.child_run as "childRun", d.child_group as "childGroup", d.schedule_id as "scheduleId", d.nominal_at as "nominalAt",
              d.in_ms as "inMs", d.is_deleted as "isDeleted", coalesce(f.outcome, m.outcome) as outcome, coalesce(f.reason, m.reason) as reason,
              f.run_id as "runId", f.group_id as "groupId"
         from (
                select distinct schedule_id
                  from dependencies
                 where parent_id is null
                   and outcome is null
              ) w
         left join ${SCHEDULES.name} s on s.id = w.schedule_id
        cross join lateral (
          select one.*, s.id is null as is_deleted,
                 case
                   when s.paused_at is null then 0
                   else greatest(0, extract(epoch from one.nominal_at - clock_timestamp()) * 1000)
                 end::float8 as in_ms
            from dependencies one
           where one.schedule_id = w.schedule_id
             and one.parent_id is null
             and one.outcome is null
             and (s.next_at is null or one.nominal_at < s.next_at)
           order by one.nominal_at, one.id
           limit $1::integer
        ) d
         left join schedule_fires f
           on f.schedule_id = d.schedule_id
          and f.nominal_at = d.nominal_at
          and f.outcome <> 'skipped_missed'
          and f.kind <> 'trigger'
         left join lateral (
           select one.outcome, one.reason, one.until_at
             from schedule_fires one
            where one.schedule_id = d.schedule_id
              and one.outcome = 'skipped_missed'
              and one.nominal_at <= d.nominal_at
            order by one.nominal_at desc
            limit 1
         ) m on m.until_at >= d.nominal_at
        order by d.in_ms, d.id
        limit $1::integer`,
      [limit],
    );
  }
}
