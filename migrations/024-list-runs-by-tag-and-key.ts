import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Lists of runs by tags of the selector and by concurrency key. The tags have a table of their own, which triggers keep, so
 * that it is exact whatever process changes a run. They fire for runs with a selector only.
 *
 * The index is built while others write; one that an interrupted build left behind is replaced. What follows is one
 * transaction.
 */
export class ListRunsByTagAndKey1795000000024 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    const [{ timeout }] = await q.query(`select current_setting('lock_timeout') as timeout`);
    // The build waits for every transaction that began before it; no other session waits for the build meanwhile.
    await q.query('set lock_timeout = 0');
    try {
      await q.query('drop index concurrently if exists runs_by_concurrency_key');
      await q.query(`
        create index concurrently runs_by_concurrency_key
            on runs (concurrency_key, state, created_at desc, id desc)
         where concurrency_key is not null
      `);
    } finally {
      await q.query(`select set_config('lock_timeout', $1, false)`, [timeout]);
    }
    const [{ exists }] = await q.query(`select to_regclass('run_tags') is not null as exists`);
    if (exists) return;
    await q.query(`
      create table run_tags (
        run_id uuid,
        tag text,
        state text not null,
        created_at timestamp(3) with time zone not null,
        constraint run_tags_pkey primary key (run_id, tag)
      ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
      create index run_tags_in_lists on run_tags (tag, state, created_at desc, run_id desc);

      create function keep_run_tags() returns trigger language plpgsql as $$
      begin
        if tg_op = 'INSERT' then
          insert into run_tags (run_id, tag, state, created_at)
          select distinct new.id, tag, new.state, new.created_at from json_array_elements_text(new.selector) as tag;
        elsif tg_op = 'UPDATE' then
          update run_tags set state = new.state, created_at = new.created_at where run_id = new.id;
        elsif tg_op = 'DELETE' then
          delete from run_tags where run_id = old.id;
        else
          truncate run_tags;
        end if;
        return null;
      end $$;
      create trigger add_run_tags after insert on runs
        for each row when (new.selector is not null) execute function keep_run_tags();
      create trigger change_run_tags after update on runs
        for each row when (
          new.selector is not null and (old.state <> new.state or old.created_at <> new.created_at)
        ) execute function keep_run_tags();
      create trigger remove_run_tags after delete on runs
        for each row when (old.selector is not null) execute function keep_run_tags();
      create trigger remove_all_run_tags after truncate on runs
        for each statement execute function keep_run_tags();
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop trigger add_run_tags on runs;
      drop trigger change_run_tags on runs;
      drop trigger remove_run_tags on runs;
      drop trigger remove_all_run_tags on runs;
      drop function keep_run_tags();
      drop table run_tags;
      drop index if exists runs_by_concurrency_key;
    `);
  }
}
