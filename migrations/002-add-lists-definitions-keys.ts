import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Lists of runs, definitions, API keys, the audit log, idempotency keys, and the retention of feeds. */
export class AddListsDefinitionsKeys1795000000002 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create index runs_by_created on runs (created_at desc, id desc);
      create index runs_by_state on runs (state, created_at desc, id desc);
      create index runs_by_image on runs (image, created_at desc, id desc);
      create index runs_by_definition on runs (definition_id, created_at desc, id desc)
        where definition_id is not null;
      create index runs_by_topic on runs (topic, created_at desc, id desc)
        where topic is not null;

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
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        creation_order bigint generated always as identity,
        primary key (id, version)
      );
      create index definitions_latest on definitions (id, created_at desc, creation_order desc);

      create table api_keys (
        id uuid primary key,
        name text not null,
        scopes text[] not null check (cardinality(scopes) > 0),
        prefix text not null,
        hash text not null unique,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3),
        last_used_at timestamptz(3),
        revoked_at timestamptz(3)
      );
      create index api_keys_by_created on api_keys (created_at desc, id desc);

      create table audit_entries (
        id bigint generated always as identity primary key,
        t timestamptz(3) not null,
        key_name text not null,
        run_id uuid not null,
        before json not null,
        after json not null
      );

      create table idempotency_keys (
        scope text primary key,
        request_hash text not null,
        run_id uuid not null,
        created_at timestamptz(3) not null
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);
      create index idempotency_keys_by_created on idempotency_keys (created_at);

      alter table feed_topics add column first_position bigint not null default 1;
      create index feed_entries_by_time on feed_entries (recorded_at);
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop index feed_entries_by_time;
      alter table feed_topics drop column first_position;
      drop table idempotency_keys, audit_entries, api_keys, definitions;
      drop index runs_by_created, runs_by_state, runs_by_image, runs_by_definition, runs_by_topic;
    `);
  }
}
