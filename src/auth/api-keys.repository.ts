import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { ApiKeyEntity } from '../database/entities/api-key.entity.js';
import { execute, rows, unnestRows } from '../database/sql.js';

/** A row of `api_keys` without the hash: what may leave the service. */
export type ApiKeyRow = Omit<ApiKeyEntity, 'hash'>;

/** A key to be stored; the database adds the time of its creation. */
export interface NewApiKey {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly prefix: string;
  readonly hash: string;
  readonly expiresAt: Date | null;
}

/** A key that is good at the moment. */
export interface UsableKey {
  readonly hash: string;
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expiresAt: Date | null;
  /** Milliseconds until it expires, by the database's clock; null for a key that does not. */
  readonly expiresInMs: number | null;
}

/** A place in the list of keys: the time of creation, then the id. */
export interface KeyPlace {
  readonly id: string;
  readonly createdAt: Date;
}

const COLUMNS = `
  id, name, scopes, prefix, created_at as "createdAt", expires_at as "expiresAt",
  last_used_at as "lastUsedAt", revoked_at as "revokedAt"`;

const USABLE = `revoked_at is null and (expires_at is null or expires_at > clock_timestamp())`;

/** SQL of the table `api_keys`. Whether a key has expired is for the database's clock to say. */
@Injectable()
export class ApiKeysRepository {
  /** Stores a key and answers it, or null when it would have expired already. */
  async insert(manager: EntityManager, key: NewApiKey): Promise<ApiKeyRow | null> {
    const [row] = await rows<ApiKeyRow>(
      manager,
      `insert into api_keys (id, name, scopes, prefix, hash, created_at, expires_at)
       select $1::uuid, $2::text, $3::text[], $4::text, $5::text,
              date_trunc('milliseconds', now()), $6::timestamptz
        where $6::timestamptz is null or $6::timestamptz > now()
       returning ${COLUMNS}`,
      [key.id, key.name, key.scopes, key.prefix, key.hash, key.expiresAt?.toISOString() ?? null],
    );
    return row ?? null;
  }

  /** Where a key stands in the list, or null for an unknown id. */
  async findPlace(manager: EntityManager, id: string): Promise<KeyPlace | null> {
    const [place] = await rows<KeyPlace>(
      manager,
      `select id, created_at as "createdAt"
         from api_keys
        where id = $1::uuid`,
      [id],
    );
    return place ?? null;
  }

  /** Keys older than the place, newest first. @param after null: from the newest on */
  list(manager: EntityManager, after: KeyPlace | null, limit: number): Promise<ApiKeyRow[]> {
    return rows<ApiKeyRow>(
      manager,
      `select ${COLUMNS}
         from api_keys
        where $1::timestamptz is null or (created_at, id) < ($1::timestamptz, $2::uuid)
        order by created_at desc, id desc
        limit $3`,
      [after?.createdAt.toISOString() ?? null, after?.id ?? null, limit],
    );
  }

  /** Revokes a key and answers its hash, or null for an unknown id; one that was revoked before stays as it is. */
  async revoke(manager: EntityManager, id: string): Promise<string | null> {
    const [row] = await rows<{ hash: string }>(
      manager,
      `update api_keys
          set revoked_at = coalesce(revoked_at, date_trunc('milliseconds', now()))
        where id = $1::uuid
       returning hash`,
      [id],
    );
    return row?.hash ?? null;
  }

  /** Those of the hashes that belong to a key which is neither revoked nor expired. */
  findUsable(manager: EntityManager, hashes: readonly string[]): Promise<UsableKey[]> {
    return rows<UsableKey>(
      manager,
      `select hash, id, name, scopes, expires_at as "expiresAt",
              (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as "expiresInMs"
         from api_keys
        where hash = any($1::text[]) and ${USABLE}`,
      [hashes],
    );
  }

  /** Whether any key could be used at the moment. */
  async hasUsable(manager: EntityManager): Promise<boolean> {
    const [row] = await rows<{ found: boolean }>(
      manager,
      `select exists (select from api_keys where ${USABLE}) as found`,
    );
    return row?.found === true;
  }

  /** Moves the last use of keys forward. @param uses ids, and how many milliseconds ago each was used */
  async noteUses(manager: EntityManager, uses: ReadonlyMap<string, number>): Promise<void> {
    const source = unnestRows(
      { id: 'uuid', age_ms: 'double precision' },
      [...uses].map(([id, ageMs]) => ({ id, age_ms: ageMs })),
    );
    // Rows are locked in id order, so that two processes never wait for each other in a circle.
    await execute(
      manager,
      `with used as (
         select k.id, date_trunc('milliseconds', now()) - v.age_ms * interval '1 millisecond' as t
           from ${source.sql}
           join api_keys k on k.id = v.id
          order by k.id
            for no key update of k
       )
       update api_keys k
          set last_used_at = used.t
         from used
        where k.id = used.id and (k.last_used_at is null or k.last_used_at < used.t)`,
      source.params,
    );
  }
}
