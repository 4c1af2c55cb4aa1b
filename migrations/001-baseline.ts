/* oxlint-disable max-lines -- the schema is read from top to bottom; tests tell its versions apart by the text of the class */
import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The schema of version 0.1.0. Only additions follow it (CONTRIBUTING.md).
 *
 * A table whose rows are written often keeps room on its pages (`fillfactor`), so that the next version of a row fits beside
 * the last one and no index changes; autovacuum comes to it after a number of dead rows, not after a share of the table.
 */
export class Baseline1795000000001 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await this.#createFeeds(q);
    await this.#createRuns(q);
    await this.#createBulkOperations(q);
    await this.#createQueue(q);
    await this.#createPauses(q);
    await this.#countRuns(q);
    await this.#createLogs(q);
    await this.#createWorkers(q);
    await this.#createDefinitionsAndKeys(q);
    await this.#createSchedules(q);
    await this.#createGroups(q);
    await this.#createWebhooks(q);
    await this.#createFiles(q);
  }

  /** Removes everything, data included. */
  async down(q: QueryRunner): Promise<void> {
    // `events` has a default that calls a function, and this one reads `feed_epochs`.
    await q.query(`
      drop table
        deployments, object_cleanups, artifact_uploads, artifacts, file_uses, files,
        webhook_deliveries, webhooks,
        dependency_ends, dependencies, group_terms, groups, schedule_fires, schedules,
        audit_entries, api_keys, secrets, definitions,
        worker_absences, worker_drains, worker_descriptions, worker_pool, worker_pool_epoch,
        run_log_removals, run_log_rows, run_logs,
        run_counts, run_timers, concurrency_slots, concurrency_keys, lanes, queue, pauses,
        bulk_operations, idempotency_keys, run_terms, events, attempts, executions, runs,
        feed_entries, feed_topics;
      drop function
        record_removed_runs(), keep_run_terms(), count_rerun(),
        commit_order_bound(), next_commit_order(), require_all_written(bigint, bigint);
      drop table feed_epoch_heads, feed_epochs, database_origin;
    `);
  }

  /**
   * Feeds: the entries of timelines by topic, with dense positions.
   *
   * A feed that was restored from a backup goes on as another epoch: it shares what it held then, and nothing behind that.
   * `database_origin` has what tells the database from a restored one, `feed_epochs` a row per restore (the epoch before
   * the first has none), `feed_epoch_heads` the last position that an epoch shares with the one before it.
   */
  async #createFeeds(q: QueryRunner): Promise<void> {
    await q.query(`
      create table feed_topics (
        topic text primary key,
        last_position bigint not null,
        first_position bigint not null default 1,
        oldest_at timestamptz(3)
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
      create index feed_topics_by_oldest on feed_topics (oldest_at) where oldest_at is not null;

      create table feed_entries (
        topic text not null,
        position bigint not null,
        run_id uuid not null,
        event_index integer not null,
        recorded_at timestamptz(3) not null,
        primary key (topic, position)
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);

      create table database_origin (
        only_row boolean primary key default true check (only_row),
        marks jsonb not null
      );

      create table feed_epochs (
        number integer primary key check (number >= 1),
        token text not null unique,
        began_at timestamptz(3) not null
      );

      create table feed_epoch_heads (
        number integer not null references feed_epochs (number) on delete cascade,
        topic text not null,
        last_position bigint not null check (last_position >= 0),
        primary key (topic, number)
      );
    `);
  }

  /** Runs with their current attempt, earlier attempts, timelines, the terms that lists filter by, idempotency keys. */
  async #createRuns(q: QueryRunner): Promise<void> {
    await q.query(`
      -- The columns that a lifecycle changes stand last, behind the large ones: PostgreSQL logs of an update what lies between
      -- the first and the last byte that differ. No index names a column that changes before the run ends, so that an
      -- assignment and a start write no index.
      create table runs (
        id uuid primary key,
        max_attempts integer not null check (max_attempts between 1 and 1000),
        ram_mb integer not null check (ram_mb >= 0),
        vram_mb integer not null check (vram_mb >= 0),
        cpu integer not null check (cpu >= 0),
        backoff_s integer not null default 0 check (backoff_s >= 0),
        max_backoff_s integer not null default 0 check (max_backoff_s >= 0),
        start_within_s integer check (start_within_s >= 1),
        attempt_timeout_s integer check (attempt_timeout_s >= 1),
        concurrency_limit integer,
        created_at timestamptz(3) not null,
        start_at timestamptz(3),
        requirement_id uuid,
        image text not null,
        topic text,
        definition_id text,
        definition_version text,
        concurrency_key text,
        concurrency_on_limit text,
        retry_on text,
        traceparent text,
        tracestate text,
        created_by uuid,
        created_by_name text,
        rerun_of uuid,
        reruns integer,
        schedule_id text,
        schedule_time text,
        group_id uuid,
        group_ref text,
        array_index integer,
        array_size integer,
        has_sources boolean,
        has_files boolean,
        request json,
        inputs json not null,
        outputs_template json not null,
        attributes json,
        options json,
        selector json,
        extra_constraints json,
        outputs json,
        name text,
        labels json,
        size integer not null, -- bytes of the JSON columns: pages are bounded without reading them
        priority integer not null,
        attempt integer not null check (attempt between 1 and 1000),
        attempt_id uuid not null,
        first_event integer not null check (first_event between 0 and event_count),
        failures integer not null check (failures >= 0),
        reclaims integer not null check (reclaims >= 0),
        repeated_losses integer not null default 0,
        queued_at timestamptz(3) not null,
        not_before timestamptz(3),
        waits_for integer,
        dependents integer,
        reopens boolean,
        preparing_at timestamptz(3),
        avoided_worker text,
        loss_worker text,
        error_message text,
        cause text,
        exit_code smallint,
        cancel_reason text,
        outcome text not null default 'OPEN',
        state text not null
          check (state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')),
        progress smallint not null check (progress between 0 and 100),
        event_count integer not null,
        note_count integer not null default 0,
        note_bytes integer not null default 0,
        gpu_id integer,
        gpu_ids text,
        worker_id text,
        assigned_at timestamptz(3),
        started_at timestamptz(3),
        finished_at timestamptz(3),
        updated_at timestamptz(3) not null,
        ended_worker text,
        constraint runs_repeated_losses_check
          check (repeated_losses between 0 and reclaims),
        constraint runs_outcome_check
          check (outcome = case when finished_at is null then 'OPEN' else state end),
        constraint runs_ended_worker_check
          check (ended_worker is not distinct from case when finished_at is not null then worker_id end),
        constraint runs_finished_when_terminal
          check ((state in ('CANCELLED', 'COMPLETED', 'FAILED')) = (finished_at is not null)),
        constraint runs_schedule_check
          check ((schedule_id is null) = (schedule_time is null)),
        constraint runs_array_check
          check ((array_index is null) = (array_size is null)),
        constraint runs_waits_for_check
          check (waits_for is null or not_before is not null),
        constraint runs_pending_belongs_to_nobody
          check (state <> 'PENDING' or worker_id is null),
        constraint runs_back_off_while_pending
          check (not_before is null or state = 'PENDING')
      ) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

      -- Lists. Each index has the outcome before the time, so that a filter together with an outcome is one range of it as well;
      -- a list of all runs merges one range an outcome. They ascend, though lists are read from the newest run: PostgreSQL fills
      -- the pages of a range that grows at its end, and halves those of one that grows at its start. The indexes of two fields are
      -- for values that are frequent but never meet, of which a list would read all runs of the rarer one.
      -- The predicate of runs_by_outcome holds for every run: the planner uses it only for lists that ask for it.
      create index runs_by_outcome on runs (outcome, created_at, id)
        where max_attempts > 0;
      create index runs_by_image on runs (image, outcome, created_at, id);
      create index runs_by_definition on runs (definition_id, outcome, created_at, id)
        where definition_id is not null;
      create index runs_by_topic on runs (topic, outcome, created_at, id)
        where topic is not null;
      create index runs_by_concurrency_key on runs (concurrency_key, outcome, created_at, id)
        where concurrency_key is not null;
      create index runs_by_creator on runs (created_by, outcome, created_at, id)
        where created_by is not null;
      create index runs_by_rerun on runs (rerun_of, outcome, created_at, id)
        where rerun_of is not null;
      create index runs_by_schedule on runs (schedule_id, outcome, created_at, id)
        where schedule_id is not null;
      create index runs_by_group on runs (group_id, outcome, created_at, id)
        where group_id is not null;
      create unique index runs_by_array on runs (group_id, array_index)
        where array_index is not null;
      create index runs_by_definition_and_image on runs (definition_id, image, outcome, created_at, id)
        where definition_id is not null;
      create index runs_by_topic_and_definition on runs (topic, definition_id, outcome, created_at, id)
        where topic is not null and definition_id is not null;
      -- A topic and an image together may be longer than an entry of an index can be (2,704 bytes).
      create index runs_by_topic_and_image_hash
        on runs (topic, hashtextextended(image, 0), outcome, created_at, id)
        where topic is not null;
      create index runs_by_name on runs (name collate "C", created_at, id)
        where name is not null;
      create index runs_by_cause on runs (cause, outcome, created_at, id)
        where cause is not null;
      create index runs_by_exit_code on runs (exit_code, outcome, created_at, id)
        where exit_code is not null;
      create index runs_by_worker on runs (ended_worker, outcome, created_at, id)
        where ended_worker is not null;
      -- For the runs that ended after a time and were created long before it: the others are found by their creation.
      create index runs_by_end on runs (outcome, finished_at, created_at)
        where finished_at - created_at > interval '10 seconds';
      create index runs_waiting on runs (not_before, waits_for)
        where not_before is not null;
      create index runs_to_resolve on runs (id)
        where waits_for = 0;

      -- The runs that are ASSIGNED or RUNNING, with what the search for lost workers, strategies and lists read of them.
      create table executions (
        created_at timestamptz(3) not null,
        assigned_at timestamptz(3),
        run_id uuid not null,
        attempt integer not null,
        ram_mb integer not null,
        cpu_millis bigint not null,
        vram_mb integer not null,
        gpus smallint not null default '0',
        gpu_id integer,
        requirement_id uuid,
        gpu_ids text,
        worker_id text not null, -- empty for a run whose state an admin set
        concurrency_key text,
        primary key (worker_id, run_id)
      ) with (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
      );
      create index executions_by_key on executions (concurrency_key)
        where concurrency_key is not null;

      create table attempts (
        run_id uuid not null references runs (id) on delete cascade,
        attempt integer not null,
        id uuid not null,
        state text not null
          check (state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')),
        progress smallint not null check (progress between 0 and 100),
        outputs json,
        gpu_id integer,
        gpu_ids text,
        worker_id text,
        error_message text,
        first_event integer not null,
        end_event integer not null check (end_event >= first_event),
        queued_at timestamptz(3) not null,
        assigned_at timestamptz(3),
        started_at timestamptz(3),
        finished_at timestamptz(3) not null,
        size integer not null,
        cause text,
        exit_code smallint,
        cancel_reason text,
        ram_mb integer,
        primary key (run_id, attempt)
      );

      -- Fails as a serialization failure does, unless all rows of a statement were written.
      create function require_all_written(written bigint, given bigint) returns void language plpgsql as $$
      begin
        if written <> given then
          raise serialization_failure using message = 'another transaction has written one of the runs';
        end if;
      end
      $$;

      -- One order of all events, so that a reader can page through them: no event that is committed later sorts before one
      -- that a reader was given. The upper 15 bits are the number of the last restore, after which the ids of transactions
      -- may begin anew. The other 48 bits are the id of the event's transaction or, if that is greater, the highest id of the
      -- transactions that had ended when the event was inserted: a transaction that changes a run after another may have
      -- the smaller id. Every transaction that is still open, or begins later, has or gets an id of at least
      -- pg_snapshot_xmin, so a reader takes the events below that bound.
      create function next_commit_order() returns bigint stable
        return (coalesce((select max(number) from feed_epochs), 0)::bigint << 48)
             + greatest(
                 pg_current_xact_id()::text::bigint,
                 pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1
               );

      create function commit_order_bound() returns bigint stable
        return (coalesce((select max(number) from feed_epochs), 0)::bigint << 48)
             + pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

      create table events (
        run_id uuid not null,
        index integer not null check (index >= 0),
        attempt integer not null,
        type text not null,
        state text not null,
        t timestamptz(3) not null,
        msg json not null,
        payload json not null,
        size integer not null check (size >= 0),
        commit_order bigint not null default next_commit_order(),
        sender uuid,
        primary key (run_id, index)
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);
      create index events_by_commit on events (commit_order, run_id, index);

      -- What lists find a run by beside its own columns: TAG for a tag of its selector, KEY and KEY=VALUE for a label, behind
      -- 'selector:' and 'label:'. Triggers keep the terms, so that they are exact whatever changes a run. They fire only for
      -- runs that have a selector or labels.
      create table run_terms (
        run_id uuid,
        term text,
        outcome text not null,
        created_at timestamptz(3) not null,
        primary key (run_id, term)
      ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
      create index run_terms_in_lists on run_terms (term, outcome, created_at, run_id);

      create function keep_run_terms() returns trigger language plpgsql as $$
      begin
        if tg_op = 'TRUNCATE' then
          truncate run_terms;
          return null;
        end if;
        if tg_op = 'UPDATE' and old.labels::text is not distinct from new.labels::text then
          update run_terms set outcome = new.outcome, created_at = new.created_at where run_id = new.id;
          return null;
        end if;
        if tg_op <> 'INSERT' then
          delete from run_terms where run_id = old.id;
        end if;
        if tg_op <> 'DELETE' then
          insert into run_terms (run_id, term, outcome, created_at)
          select new.id, term, new.outcome, new.created_at
            from (
              select 'selector:' || tag from json_array_elements_text(new.selector) as tag
              union
              select unnest(array['label:' || key, 'label:' || key || '=' || value]) from json_each_text(new.labels)
            ) as terms (term);
        end if;
        return null;
      end $$;
      create trigger add_run_terms after insert on runs
        for each row when (new.selector is not null or new.labels is not null) execute function keep_run_terms();
      create trigger change_run_terms after update on runs
        for each row when (
          (new.selector is not null or new.labels is not null or old.labels is not null)
          and (
            old.outcome <> new.outcome or old.created_at <> new.created_at
            or old.labels::text is distinct from new.labels::text
          )
        ) execute function keep_run_terms();
      create trigger remove_run_terms after delete on runs
        for each row when (old.selector is not null or old.labels is not null) execute function keep_run_terms();
      create trigger remove_all_run_terms after truncate on runs
        for each statement execute function keep_run_terms();

      -- At the end of the transaction, so that the row of a run that is changed in it too is written before.
      create function count_rerun() returns trigger language plpgsql as $$
      begin
        update runs set reruns = coalesce(reruns, 0) + 1 where id = new.rerun_of;
        return null;
      end $$;
      create constraint trigger count_rerun after insert on runs deferrable initially deferred
        for each row when (new.rerun_of is not null) execute function count_rerun();

      create table idempotency_keys (
        scope text primary key,
        request_hash text not null,
        run_id uuid,
        created_at timestamptz(3) not null,
        claimed uuid[]
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);
      create index idempotency_keys_by_created on idempotency_keys (created_at);
    `);
  }

  /** Changes of all runs that a filter matched, with the ids of these runs, which are removed at the end. */
  async #createBulkOperations(q: QueryRunner): Promise<void> {
    await q.query(`
      create table bulk_operations (
        id uuid primary key,
        action text not null check (action in ('cancel', 'retry', 'priority', 'labels')),
        filter json not null,
        value json,
        reason text,
        key_id uuid not null,
        key_name text not null,
        is_admin boolean not null,
        matched integer not null,
        processed integer not null default 0,
        refused integer not null default 0 check (refused between 0 and processed),
        refusals json not null,
        state text not null check (state in ('running', 'done', 'stopped')),
        created_at timestamptz(3) not null,
        due_at timestamptz(3) not null,
        turn_at timestamptz,
        ended_at timestamptz(3),
        run_ids uuid[] not null,
        constraint bulk_operations_processed_check check (processed between 0 and matched),
        constraint bulk_operations_end_check check ((state = 'running') = (ended_at is null))
      ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
      create index bulk_operations_due on bulk_operations (due_at)
        where state = 'running';
      create index bulk_operations_running on bulk_operations (key_id)
        where state = 'running';
      create index bulk_operations_turns on bulk_operations (key_id, turn_at);
      create index bulk_operations_ended on bulk_operations (ended_at)
        where ended_at is not null;
      -- A page is a part of the list, which is read without being decompressed.
      alter table bulk_operations alter column run_ids set storage external;
    `);
  }

  /**
   * Pending runs that may be claimed, each in the lane of what it requires of its worker. Claims read the admitted rows: of
   * the runs of a concurrency key, only as many are admitted as the key has room for; of runs that a pause holds, none. The lane of runs that every worker may get
   * at any time has the nil UUID and no row in `lanes`.
   */
  async #createQueue(q: QueryRunner): Promise<void> {
    await q.query(`
      create table queue (
        run_id uuid primary key,
        lane uuid not null default '00000000-0000-0000-0000-000000000000',
        created_at timestamptz(3) not null,
        cpu_millis bigint not null,
        priority integer not null,
        ram_mb integer not null,
        vram_mb integer not null,
        gpus smallint not null default '0',
        is_admitted boolean not null default true,
        is_paused boolean not null default false,
        passed_over_at timestamptz(3),
        reserved_for text,
        concurrency_key text,
        concurrency_limit integer,
        alike bigint,
        constraint queue_limit_check check ((concurrency_key is null) = (concurrency_limit is null)),
        constraint queue_alike_check check ((concurrency_key is null) = (alike is null)),
        constraint queue_admission_check check (case when is_paused then not is_admitted else is_admitted or concurrency_key is not null end)
      ) with (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
      );
      create index queue_order on queue (lane, is_admitted, priority desc, created_at, run_id);
      create index queue_passed_over on queue (lane, priority desc, created_at, run_id)
        where is_admitted and passed_over_at is not null;
      create index queue_by_key on queue (concurrency_key, is_paused, alike, priority desc, created_at, run_id)
        where concurrency_key is not null;
      create index queue_admitted on queue (concurrency_key)
        where is_admitted and concurrency_key is not null;
      create index queue_reserved on queue (reserved_for)
        where reserved_for is not null;
      create index queue_paused on queue (run_id)
        where is_paused;

      create table lanes (
        id uuid primary key,
        requirement_id uuid,
        required text[] not null
      );

      create table concurrency_keys (
        key text primary key,
        executing integer not null
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

      -- Programs that may still be executed after their run was taken from its worker. Their keys count them, and the
      -- worker has so much less to give.
      create table concurrency_slots (
        id bigint generated always as identity primary key,
        cpu_millis bigint not null,
        run_id uuid not null,
        attempt integer not null,
        ram_mb integer not null,
        vram_mb integer not null,
        gpus smallint not null,
        is_killed boolean not null default false,
        assigned_at timestamptz(3) not null,
        ends_at timestamptz(3) not null,
        gpu_ids text,
        key text,
        worker_id text not null
      );
      create index concurrency_slots_by_worker on concurrency_slots (worker_id);
      create index concurrency_slots_by_run on concurrency_slots (run_id);

      create table run_timers (
        run_id uuid primary key,
        due_at timestamptz(3) not null
      ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
      create index run_timers_by_time on run_timers (due_at);
    `);
  }

  /**
   * Pauses: pending runs that match one are not assigned. A list that is null holds for every run; all are null: the pause is
   * of all runs. The rows of `queue` follow a change until `is_applied`; a pause that has ended is removed then.
   */
  async #createPauses(q: QueryRunner): Promise<void> {
    await q.query(`
      create table pauses (
        name text primary key,
        reason text not null,
        definitions text[],
        labels text[],
        selector text[],
        schedules text[],
        creators uuid[],
        until_at timestamptz(3),
        is_applied boolean not null default false,
        updated_by uuid not null,
        updated_by_name text not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null
      );
    `);
  }

  /**
   * Counts of runs by state. A row holds what the commits of one connection (its slot) did in one second: `created` and the
   * three `ended` columns how often that happened, the columns of states by how much the number of runs in them changed.
   * Seconds are summed up in rows of whole minutes, and minutes that no response shows in the row that begins at
   * `-infinity`, all of them of slot 0; the sum over all rows is the number of runs in each state now.
   *
   * A row is new each second, so that few versions pile up while a long transaction keeps them from being cleaned away.
   */
  async #countRuns(q: QueryRunner): Promise<void> {
    await q.query(`
      create table run_counts (
        since timestamptz not null,
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
    `);
  }

  /**
   * Logs of containers. Each chunk updates the row of its log in `run_logs`, whose only index is the primary key. The lines are
   * in `run_log_rows`, compressed by the service. The rows of a container that prints without end are dropped as fast as they
   * come, which vacuum has to keep up with.
   *
   * Neither table refers to `runs`: the check of a foreign key would lock the row of the run against those who change it. A
   * trigger records the runs that are deleted in `run_log_removals` instead, and a job removes their logs in batches.
   */
  async #createLogs(q: QueryRunner): Promise<void> {
    await q.query(`
      create table run_logs (
        run_id uuid not null,
        attempt integer not null check (attempt between 1 and 1000),
        next_chunk integer not null check (next_chunk >= 0),
        next_line bigint not null check (next_line >= 0),
        printed_bytes bigint not null check (printed_bytes >= 0),
        unknown_gaps bigint not null check (unknown_gaps >= 0),
        weight bigint not null check (weight >= 0),
        tail_line bigint,
        tail_weight bigint,
        is_complete boolean not null,
        updated_at timestamptz(3) not null,
        worker_id text not null,
        cursor text,
        primary key (run_id, attempt),
        constraint run_logs_tail check ((tail_line is null) = (tail_weight is null))
      ) with (
        fillfactor = 50,
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05
      );

      create table run_log_rows (
        run_id uuid not null,
        attempt integer not null,
        first_line bigint not null check (first_line >= 0),
        line_count integer not null check (line_count >= 0),
        text_bytes bigint not null check (text_bytes >= 0),
        bytes_before bigint not null,
        unknown_gaps_before bigint not null,
        weight_before bigint not null,
        lines bytea not null,
        primary key (run_id, attempt, first_line)
      ) with (
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1,
        toast.autovacuum_vacuum_scale_factor = 0.02,
        toast.autovacuum_vacuum_threshold = 2000
      );
      -- Compressed already.
      alter table run_log_rows alter column lines set storage external;

      create table run_log_removals (
        run_id uuid primary key,
        removed_at timestamptz(3) not null
      );
      create index run_log_removals_by_time on run_log_removals (removed_at, run_id);

      create function record_removed_runs() returns trigger language plpgsql as $$
      begin
        insert into run_log_removals (run_id, removed_at)
        select id, now()
          from removed
            on conflict (run_id) do nothing;
        return null;
      end
      $$;
      create trigger record_removed_runs after delete on runs
        referencing old table as removed
        for each statement execute function record_removed_runs();
    `);
  }

  /**
   * The pool of workers that several server processes share. The pool is unlogged: heartbeats restore it after a crash.
   *
   * A heartbeat updates a row of `worker_pool`: such a row is narrow, and the primary key is the only index. A row of
   * `worker_descriptions` is written only when the worker describes itself differently. Fixed-width columns come first.
   */
  async #createWorkers(q: QueryRunner): Promise<void> {
    await q.query(`
      create unlogged table worker_pool (
        created_at timestamptz(3) not null,
        last_heartbeat_at timestamptz(3) not null,
        last_report_at timestamptz(3),
        previous_report_at timestamptz(3),
        key_id uuid not null,
        had_run boolean not null,
        worker_id text collate "C" primary key
      ) with (
        fillfactor = 50,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_threshold = 1000000
      );

      create unlogged table worker_descriptions (
        description_hash uuid not null,
        running_hash uuid,
        worker_id text collate "C" primary key,
        description json not null,
        departed jsonb,
        running_ids jsonb,
        running_ops json
      ) with (
        fillfactor = 70,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_threshold = 100000
      );

      create unlogged table worker_pool_epoch (
        only_row boolean primary key default true check (only_row),
        started_at timestamptz(3) not null
      );

      create table worker_drains (
        worker_id text primary key,
        drained_at timestamptz(3) not null,
        seen_at timestamptz(3) not null default now()
      );

      create table worker_absences (
        worker_id text primary key,
        until timestamptz(3) not null
      );
    `);
  }

  async #createDefinitionsAndKeys(q: QueryRunner): Promise<void> {
    await q.query(`
      create table definitions (
        id text not null,
        version text not null,
        image text not null,
        input_specs json not null,
        output_specs json not null,
        ram_mb integer not null check (ram_mb >= 0),
        vram_mb integer not null check (vram_mb >= 0),
        cpu integer not null check (cpu >= 0),
        max_attempts integer not null check (max_attempts between 1 and 1000),
        topic text,
        attributes json,
        labels json,
        description text,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        creation_order bigint generated always as identity,
        start_within_s integer check (start_within_s >= 1),
        attempt_timeout_s integer check (attempt_timeout_s >= 1),
        backoff_s integer not null default 0 check (backoff_s >= 0),
        max_backoff_s integer not null default 0 check (max_backoff_s >= 0),
        options json,
        selector json,
        extra_constraints json,
        concurrency_key text,
        concurrency_limit integer,
        concurrency_on_limit text,
        retry_on text,
        applied json,
        created_by uuid,
        created_by_name text,
        updated_by uuid,
        updated_by_name text,
        primary key (id, version)
      );
      create index definitions_latest on definitions (id, created_at desc, creation_order desc);

      create table secrets (
        name text primary key,
        kind text not null check (kind in ('opaque', 'registry', 'map')),
        ciphertext bytea not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null
      );

      create table api_keys (
        id uuid primary key,
        name text not null,
        scopes text[] not null check (cardinality(scopes) > 0),
        prefix text not null,
        hash text not null unique,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3),
        last_used_at timestamptz(3),
        revoked_at timestamptz(3),
        worker_ids text[],
        worker_tags text[],
        worker_capabilities text[],
        max_file_bytes bigint check (max_file_bytes >= 0),
        stores text[],
        constraint api_keys_worker_ids_check
          check (worker_ids is null or (cardinality(worker_ids) > 0 and scopes = array['worker'])),
        constraint api_keys_worker_tags_check
          check ((worker_tags is null and worker_capabilities is null) or scopes = array['worker'])
      );
      create index api_keys_by_created on api_keys (created_at desc, id desc);

      create table audit_entries (
        id bigint generated always as identity primary key,
        t timestamptz(3) not null,
        key_name text not null,
        run_id uuid,
        before json not null,
        after json not null,
        action text not null,
        subject text
      );
      -- One entry for each attempt and API key that reads secrets.
      create unique index audit_entries_secret_reads
        on audit_entries (run_id, (after ->> 'attempt'), (after ->> 'key_id'))
        where action = 'secret.read';
      -- The entry of a bulk operation, which its end completes.
      create unique index audit_entries_bulk_operations on audit_entries (subject)
        where action = 'bulk.start';
    `);
  }

  /**
   * Endpoints that are told of events, and the log of what was sent. A delivery that failed is parked: it is tried again, and later
   * ones of the same subject wait behind it. Log and endpoint have no foreign key: the log of a removed endpoint expires.
   */
  async #createWebhooks(q: QueryRunner): Promise<void> {
    await q.query(`
      create table webhooks (
        id uuid primary key,
        url text not null,
        description text,
        events text[] not null check (cardinality(events) > 0),
        conditions json not null,
        include text[] not null,
        secret bytea not null,
        old_secret bytea,
        old_secret_until timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        gap json,
        is_enabled boolean not null default true,
        disabled_reason text,
        position json not null,
        replay json,
        failures integer not null default 0 check (failures >= 0),
        failing_since timestamptz(3),
        last_success_at timestamptz(3),
        probe_at timestamptz(3),
        lease uuid,
        lease_until timestamptz(3),
        constraint webhooks_disabled_reason_check check (disabled_reason is null or not is_enabled),
        constraint webhooks_old_secret_check check ((old_secret is null) = (old_secret_until is null)),
        constraint webhooks_failing_check check ((failures = 0) = (failing_since is null)),
        constraint webhooks_lease_check check ((lease is null) = (lease_until is null))
      ) with (fillfactor = 50);

      create table webhook_deliveries (
        id bigint generated always as identity primary key,
        webhook_id uuid not null,
        message_id text not null,
        type text not null,
        subject text not null,
        body text not null,
        created_at timestamptz(3) not null,
        state text not null check (state in ('parked', 'delivered', 'failed')),
        tries integer not null check (tries >= 0),
        due_at timestamptz(3),
        tried_at timestamptz(3),
        status smallint,
        duration_ms integer,
        detail text,
        constraint webhook_deliveries_due_check check ((state = 'parked') = (due_at is not null))
      ) with (
        fillfactor = 90,
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1
      );
      create index webhook_deliveries_listed on webhook_deliveries (webhook_id, id);
      create index webhook_deliveries_by_state on webhook_deliveries (webhook_id, state, id);
      create index webhook_deliveries_settled on webhook_deliveries (created_at)
        where state <> 'parked';
    `);
  }

  /**
   * Groups of runs with their counts; what runs and arrays wait for; and ends of runs and groups that something waits for, until each that
   * waits has been told.
   */
  async #createGroups(q: QueryRunner): Promise<void> {
    await q.query(`
      create table groups (
        id uuid primary key,
        name text,
        labels json,
        on_failure text not null check (on_failure in ('cancel_dependents', 'cancel_group')),
        max_parallel integer check (max_parallel >= 1),
        max_failed integer check (max_failed >= 1),
        size integer not null check (size >= 1),
        array_body json,
        same_index json,
        schedule_id text,
        schedule_time text,
        idempotency_key text unique,
        request_hash text,
        created_by uuid,
        created_by_name text,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        ended_at timestamptz(3),
        state text not null default 'open' check (state in ('open', 'completed', 'failed', 'cancelled')),
        stop_cause text check (stop_cause in ('dependency', 'inputs', 'max_failed', 'group', 'user')),
        reason text,
        created integer not null default 0,
        pending integer not null default 0,
        assigned integer not null default 0,
        running integer not null default 0,
        completed integer not null default 0,
        failed integer not null default 0,
        cancelled integer not null default 0,
        waits_for integer,
        dependents integer not null default 0,
        endings integer not null default 1,
        end_order bigint,
        due_at timestamptz(3),
        constraint groups_ended_check check ((state = 'open') = (ended_at is null)),
        constraint groups_created_check check (created between 0 and size),
        constraint groups_counts_check
          check (created = pending + assigned + running + completed + failed + cancelled)
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
      create index groups_listed on groups (created_at, id);
      create index groups_by_state on groups (state, created_at, id);
      create index groups_by_name on groups (name, created_at, id)
        where name is not null;
      create index groups_due on groups (due_at)
        where due_at is not null;
      create index groups_ended on groups (end_order, id)
        where end_order is not null;
      create index groups_open on groups (schedule_id)
        where state = 'open' and schedule_id is not null;
      create index groups_by_schedule on groups (schedule_id, created_at, id)
        where schedule_id is not null;

      -- What lists find a group by beside its own columns: KEY and KEY=VALUE for a label, behind 'label:'. Labels of groups do not change.
      create table group_terms (
        group_id uuid references groups (id) on delete cascade,
        term text,
        created_at timestamptz(3) not null,
        primary key (group_id, term)
      );
      create index group_terms_in_lists on group_terms (term, created_at, group_id);

      create table dependencies (
        id bigint generated always as identity primary key,
        child_run uuid references runs (id) on delete cascade,
        child_group uuid references groups (id) on delete cascade,
        parent_id uuid,
        is_group boolean not null,
        need text not null check (need in ('completed', 'failed', 'ended')),
        since bigint not null,
        outcome text check (outcome in ('met', 'broken')),
        schedule_id text,
        nominal_at timestamptz(3),
        constraint dependencies_child_check check ((child_run is null) <> (child_group is null)),
        constraint dependencies_parent_check check (parent_id is not null or schedule_id is not null),
        constraint dependencies_time_check check ((schedule_id is null) = (nominal_at is null))
      ) with (autovacuum_vacuum_scale_factor = 0.02);
      create index dependencies_of_run on dependencies (child_run)
        where child_run is not null;
      create index dependencies_of_group on dependencies (child_group)
        where child_group is not null;
      create index dependencies_on on dependencies (parent_id, outcome, id);
      create index dependencies_on_times on dependencies (schedule_id, nominal_at, id)
        where parent_id is null and outcome is null;

      create table dependency_ends (
        id bigint generated always as identity primary key,
        parent_id uuid not null,
        is_group boolean not null,
        state text not null,
        reopens boolean not null
      ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    `);
  }

  /** Schedules, and what became of each of their times. */
  async #createSchedules(q: QueryRunner): Promise<void> {
    await q.query(`
      create table schedules (
        id text primary key,
        description text,
        labels json,
        run json,
        group_body json,
        cron json,
        every_s integer check (every_s >= 10),
        offset_s integer not null default 0 check (offset_s >= 0),
        timezone text not null,
        starts_at timestamptz(3),
        ends_at timestamptz(3),
        jitter_s integer not null default 0 check (jitter_s between 0 and 3600),
        overlap text not null check (overlap in ('skip', 'allow', 'queue_one', 'cancel_previous')),
        catch_up text not null check (catch_up in ('latest', 'none', 'all')),
        window_s integer not null check (window_s >= 0),
        pause_after_failures integer check (pause_after_failures >= 1),
        applied json,
        created_at timestamptz(3) not null,
        created_by uuid,
        created_by_name text,
        updated_at timestamptz(3) not null,
        updated_by uuid,
        updated_by_name text,
        paused_at timestamptz(3),
        paused_note text,
        paused_by_name text,
        failures_since timestamptz(3) not null,
        times_since timestamptz(3) not null,
        next_at timestamptz(3),
        due_at timestamptz(3),
        revision bigint not null default next_commit_order(),
        failed_in_row integer not null default 0,
        created bigint not null default 0,
        skipped_overlap bigint not null default 0,
        skipped_missed bigint not null default 0,
        failed bigint not null default 0,
        constraint schedules_target_check check ((run is null) <> (group_body is null)),
        constraint schedules_times_check check ((cron is null) <> (every_s is null)),
        constraint schedules_due_check check ((next_at is null) = (due_at is null)),
        constraint schedules_paused_check check (paused_at is null or next_at is null)
      ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
      create index schedules_due on schedules (due_at)
        where due_at is not null;

      create table schedule_fires (
        id bigint generated always as identity primary key,
        schedule_id text not null references schedules (id) on delete cascade,
        nominal_at timestamptz(3) not null,
        kind text not null check (kind in ('schedule', 'trigger', 'backfill')),
        outcome text not null check (outcome in ('created', 'skipped_overlap', 'skipped_missed', 'failed')),
        run_id uuid,
        group_id uuid,
        reason text,
        count integer not null default 1 check (count >= 1),
        until_at timestamptz(3) not null,
        fired_at timestamptz(3) not null,
        commit_order bigint not null default next_commit_order(),
        idempotency_key text,
        request_hash text,
        constraint schedule_fires_target_check
          check (num_nonnulls(run_id, group_id) = (outcome = 'created')::integer),
        constraint schedule_fires_range_check check (until_at >= nominal_at)
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);
      create index schedule_fires_by_schedule on schedule_fires (schedule_id, id);
      create unique index schedule_fires_once on schedule_fires (schedule_id, nominal_at)
        where outcome <> 'skipped_missed';
      create unique index schedule_fires_by_key on schedule_fires (idempotency_key)
        where idempotency_key is not null;
      create index schedule_fires_missed on schedule_fires (schedule_id, nominal_at)
        where outcome = 'skipped_missed';
      create index schedule_fires_skipped on schedule_fires (commit_order, id)
        where outcome <> 'created';
    `);
  }

  /** Files that clients upload, whose bytes are in the store, and what uses them. */
  async #createFiles(q: QueryRunner): Promise<void> {
    await q.query(`
      create table files (
        id uuid primary key,
        name text not null,
        bytes bigint not null check (bytes >= 0),
        sha256 text,
        content_type text,
        state text not null check (state in ('awaited', 'stored', 'removed', 'deleted')),
        created_by uuid not null,
        created_by_name text not null,
        created_at timestamptz(3) not null,
        last_used_at timestamptz(3) not null,
        removed_at timestamptz(3),
        due_at timestamptz(3),
        upload_id text,
        part_bytes bigint check (part_bytes >= 1),
        constraint files_removed_check check ((state = 'removed') = (removed_at is not null))
      ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
      -- What a key has uploaded: the sum of its limit, and files with the same content.
      create index files_by_content on files (created_by, sha256, created_at);
      create index files_due on files (due_at);

      create table file_uses (
        kind text not null check (kind in ('run', 'definition', 'schedule')),
        user_id text not null, -- of a version of a definition its name and version
        file_id uuid not null references files (id) on delete cascade,
        primary key (kind, user_id, file_id)
      ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
      create index file_uses_of_file on file_uses (file_id, kind, user_id);

      -- What the last attempt of a run has left that ended by a report. It goes with its objects, and so before the run.
      create table artifacts (
        run_id uuid not null,
        name text not null,
        attempt integer not null,
        path text,
        bytes bigint,
        sha256 text,
        etag text,
        content_type text,
        state text not null check (state in ('stored', 'missing', 'removed')),
        store text,
        key text,
        at timestamptz(3) not null,
        removed_at timestamptz(3),
        constraint artifacts_store_check check ((store is null) = (key is null)),
        primary key (run_id, name)
      ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
      create index artifacts_kept on artifacts (at, run_id)
        where state = 'stored' and store is null;

      create table artifact_uploads (
        run_id uuid not null,
        attempt integer not null,
        name text not null,
        upload_id text not null,
        started_at timestamptz(3) not null,
        primary key (run_id, attempt, name)
      );
      create index artifact_uploads_started on artifact_uploads (started_at);

      create table deployments (
        id uuid primary key,
        is_only boolean not null default true unique check (is_only)
      );
      insert into deployments (id) values (gen_random_uuid());

      create table object_cleanups (
        run_id uuid primary key,
        due_at timestamptz(3) not null,
        removes_all boolean not null default false
      );
      create index object_cleanups_due on object_cleanups (due_at);
    `);
  }
}
