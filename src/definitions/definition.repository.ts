import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { DefinitionEntity } from '../database/entities/definition.entity.js';
import { rows } from '../database/sql.js';

/** What a definition is stored from; the times are the database's. */
export type DefinitionRow = Omit<DefinitionEntity, 'createdAt' | 'updatedAt'>;

/** What tells a version from all others. */
export type VersionName = Pick<DefinitionEntity, 'id' | 'version'>;

/** A page of the list of versions. */
export interface DefinitionPage {
  /** Versions at most; all unless given. */
  readonly limit?: number | undefined;
  /** A version that there is, behind which the page begins; at the beginning unless given. */
  readonly after?: VersionName | undefined;
}

/** A page of the list of definitions. */
export interface LatestPage {
  readonly limit: number;
  /** The page begins behind this id; at the beginning unless given. */
  readonly after?: string | undefined;
  /** Only ids with this text, whatever the case of its letters. */
  readonly search?: string | undefined;
}

/** How many versions a definition has. */
export interface VersionCount {
  readonly versions: number;
}

const COLUMNS = `
  id, version, image, input_specs as "inputSpecs", output_specs as "outputSpecs", ram_mb as "ramMb",
  vram_mb as "vramMb", cpu, max_attempts as "maxAttempts", backoff_s as "backoffS", max_backoff_s as "maxBackoffS",
  start_within_s as "startWithinS", attempt_timeout_s as "attemptTimeoutS", topic, attributes,
  created_at as "createdAt", updated_at as "updatedAt"`;

/** SQL of the table `definitions`. */
@Injectable()
export class DefinitionRepository {
  /** Stores a version, or replaces it; its time of creation stays. `created` tells which of the two it was. */
  async upsert(
    manager: EntityManager,
    row: DefinitionRow,
  ): Promise<{ readonly row: DefinitionEntity; readonly created: boolean }> {
    const [stored] = await rows<DefinitionEntity & { readonly created: boolean }>(
      manager,
      `insert into definitions (
         id, version, image, input_specs, output_specs, ram_mb, vram_mb, cpu, max_attempts, backoff_s, max_backoff_s,
         start_within_s, attempt_timeout_s, topic, attributes, created_at, updated_at
       )
       values (
         $1, $2, $3, $4::json, $5::json, $6::integer, $7::integer, $8::integer, $9::integer, $10::integer,
         $11::integer, $12::integer, $13::integer, $14, $15::json, clock_timestamp(), clock_timestamp()
       )
           on conflict (id, version) do update
          set image = excluded.image,
              input_specs = excluded.input_specs,
              output_specs = excluded.output_specs,
              ram_mb = excluded.ram_mb,
              vram_mb = excluded.vram_mb,
              cpu = excluded.cpu,
              max_attempts = excluded.max_attempts,
              backoff_s = excluded.backoff_s,
              max_backoff_s = excluded.max_backoff_s,
              start_within_s = excluded.start_within_s,
              attempt_timeout_s = excluded.attempt_timeout_s,
              topic = excluded.topic,
              attributes = excluded.attributes,
              updated_at = excluded.updated_at
    returning ${COLUMNS}, (xmax = 0) as created`,
      [
        row.id,
        row.version,
        row.image,
        JSON.stringify(row.inputSpecs),
        JSON.stringify(row.outputSpecs),
        row.ramMb,
        row.vramMb,
        row.cpu,
        row.maxAttempts,
        row.backoffS,
        row.maxBackoffS,
        row.startWithinS,
        row.attemptTimeoutS,
        row.topic,
        row.attributes === null ? null : JSON.stringify(row.attributes),
      ],
    );
    if (!stored) throw new Error('the database did not answer the definition that it stored');
    const { created, ...stays } = stored;
    return { row: stays, created };
  }

  /** One version, or null. */
  find(manager: EntityManager, id: string, version: string): Promise<DefinitionEntity | null> {
    return manager.findOneBy(DefinitionEntity, { id, version });
  }

  /** The version that was created last, or null. */
  async findLatest(manager: EntityManager, id: string): Promise<DefinitionEntity | null> {
    const [row] = await rows<DefinitionEntity>(
      manager,
      `select ${COLUMNS}
         from definitions
        where id = $1
        order by created_at desc, creation_order desc
        limit 1`,
      [id],
    );
    return row ?? null;
  }

  /** Versions of one definition, the newest first. @param after a version that there is, behind which the page begins */
  listVersions(
    manager: EntityManager,
    id: string,
    { limit, after }: DefinitionPage = {},
  ): Promise<DefinitionEntity[]> {
    const behind = `
          and (created_at, creation_order) < (
                select created_at, creation_order
                  from definitions
                 where id = $1::text
                   and version = $3::text
              )`;
    return rows<DefinitionEntity>(
      manager,
      `select ${COLUMNS}
         from definitions
        where id = $1::text${after ? behind : ''}
        order by created_at desc, creation_order desc
        limit $2::bigint`,
      [id, limit ?? null, ...(after ? [after.version] : [])],
    );
  }

  /** The newest version of every definition that has the text in its id, by id, and how many versions there are. */
  listLatest(
    manager: EntityManager,
    { limit, after, search = '' }: LatestPage,
  ): Promise<(DefinitionEntity & VersionCount)[]> {
    return rows<DefinitionEntity & VersionCount>(
      manager,
      `select latest.*, (select count(*) from definitions where id = names.id)::integer as versions
         from (
           select id
             from definitions
            where id > $1::text
              and position(lower($2::text) in lower(id)) > 0
            group by id
            order by id
            limit $3::bigint
         ) names
        cross join lateral (
           select ${COLUMNS}
             from definitions
            where id = names.id
            order by created_at desc, creation_order desc
            limit 1
         ) latest
        order by names.id`,
      [after ?? '', search, limit],
    );
  }

  /** Versions of all definitions, by id, the oldest version first: all of them, or a page. */
  list(manager: EntityManager, { limit, after }: DefinitionPage = {}): Promise<DefinitionEntity[]> {
    // By the id alone first, so that the index of ids leads to where the page begins.
    const behind = `
        where id >= $2::text
          and (id, created_at, creation_order) > (
                select id, created_at, creation_order
                  from definitions
                 where id = $2::text
                   and version = $3::text
              )`;
    return rows<DefinitionEntity>(
      manager,
      `select ${COLUMNS}
         from definitions${after ? behind : ''}
        order by id, created_at, creation_order
        limit $1::bigint`,
      [limit ?? null, ...(after ? [after.id, after.version] : [])],
    );
  }
}
