import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Gives every event a place in one order of all events, so that a reader can page through them by a cursor: no event
 * that is committed later sorts before one that a reader was given. Events from before this migration have 0.
 *
 * The upper 15 bits of `commit_order` are the number of the last restore (`feed_branches`), after which the ids of
 * transactions may begin anew. The other 48 bits are the id of the event's transaction, or, if that is greater, the
 * highest id of the transactions that had ended when the event was inserted: a transaction that changes a run after
 * another may have the smaller id. Every transaction that is still open, or begins later, has or gets an id of at least
 * `pg_snapshot_xmin`, so a reader takes the events below that bound.
 */
export class OrderEventsByCommit1795000000012 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create function next_commit_order() returns bigint stable
        return (coalesce((select max(number) from feed_branches), 0)::bigint << 48)
             + greatest(
                 pg_current_xact_id()::text::bigint,
                 pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1
               );

      create function commit_order_bound() returns bigint stable
        return (coalesce((select max(number) from feed_branches), 0)::bigint << 48)
             + pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

      alter table events add column commit_order bigint not null default 0;
      alter table events alter column commit_order set default next_commit_order();
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table events drop column commit_order;
      drop function next_commit_order(), commit_order_bound();
    `);
  }
}
