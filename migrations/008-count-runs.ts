import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Counts of runs that are kept with the changes themselves. A row holds what the commits of one connection (its slot) did
 * in one second: `created` and the three `ended` columns how often that happened, the columns of states by how much the
 * number of runs in them grew or shrank. Seconds are summed up in rows of whole minutes, and minutes that nobody asks
 * about any more in the row that begins at `-infinity`, all of them of slot 0; the sum over all rows is the number of
 * runs in each state now.
 *
 * A row is written over by every commit of its second, so its page keeps room for the next versions; it is new each
 * second, so that few versions pile up while a long transaction keeps them from being cleaned away.
 */
export class CountRuns1795000000008 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      lock table runs in share row exclusive mode;
      create table run_counts (
        since timestamp with time zone not null,
        slot integer not null,
        created bigint not null,
        ended_cancelled bigint not null,
        ended_completed bigint not null,
        ended_failed bigint not null,
        pending bigint not null,
        assigned bigint not null,
        running bigint not null,
        cancelled bigint not null,
        completed bigint not null,
        failed bigint not null,
        primary key (since, slot)
      ) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
      insert into run_counts
      select '-infinity', 0,
             0, 0, 0, 0,
             count(*) filter (where state = 'PENDING'),
             count(*) filter (where state = 'ASSIGNED'),
             count(*) filter (where state = 'RUNNING'),
             count(*) filter (where state = 'CANCELLED'),
             count(*) filter (where state = 'COMPLETED'),
             count(*) filter (where state = 'FAILED')
        from runs;
      insert into run_counts
      select date_trunc('minute', t), 0,
             count(*) filter (where what = 'created'),
             count(*) filter (where what = 'CANCELLED'),
             count(*) filter (where what = 'COMPLETED'),
             count(*) filter (where what = 'FAILED'),
             0, 0, 0, 0, 0, 0
        from (
               select created_at as t, 'created' as what
                 from runs
                union all
               select finished_at, state
                 from runs
                where finished_at is not null
             ) happened
       where t >= date_trunc('minute', now()) - interval '1 hour'
       group by date_trunc('minute', t);
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table run_counts');
  }
}
