import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import type { ApiKeySetting } from '../config/key-settings.js';
import { ApiKeyEntity } from '../database/entities/security.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, rows, unnestRows } from '../database/sql/sql.js';
import { recordChange, type Author } from './audit-log.js';

/** A row of `api_keys` without the hash. */
export type ApiKeyRow = Omit<ApiKeyEntity, 'hash'>;

type Binding = 'workerIds' | 'workerTags' | 'workerCapabilities' | 'stores';

/** What of a key may be changed; absent: it stays. */
export type KeyLimits = Partial<Pick<ApiKeyEntity, 'maxFileBytes' | 'stores'>>;

/** A key to be stored; the database adds the time of its creation. */
export type NewApiKey = Pick<
  ApiKeyEntity,
  'id' | 'name' | 'scopes' | Binding | 'maxFileBytes' | 'prefix' | 'hash' | 'expiresAt'
>;

/** A key that is neither revoked nor expired. */
export interface UsableKey extends Pick<
  ApiKeyEntity,
  'hash' | 'id' | 'name' | 'scopes' | Binding | 'expiresAt'
> {
  /** Milliseconds until it expires, by the database's clock; null for a key that does not. */
  readonly expiresInMs: number | null;
}

/** A position in the list of keys. */
export type KeyPosition = Pick<ApiKeyEntity, 'id' | 'createdAt'>;

const API_KEYS = new EntityTable(ApiKeyEntity);

const INSERT = `insert into ${API_KEYS.name} as k (id, name, scopes, prefix, hash, created_at, expires_at, worker_ids,
                                       worker_tags, worker_capabilities, max_file_bytes, stores)
       select $1::uuid, $2::text, $3::text[], $4::text, $5::text,
              date_trunc('milliseconds', now()), $6::timestamptz, $7::text[], $8::text[], $9::text[], $10::bigint, $11::text[]
        where $6::timestamptz is null or $6::timestamptz > now()
    returning ${API_KEYS.select('k', API_KEYS.except('hash'))}`;

const USABLE = 'k.revoked_at is null and (k.expires_at is null or k.expires_at > clock_timestamp())';

/** Stores and reads API keys. The database's clock decides whether a key has expired. */
@Injectable()
export class ApiKeysRepository {
  constructor(@InjectRepository(ApiKeyEntity) private readonly keys: Repository<ApiKeyEntity>) {}

  /**
   * Stores a key, and records it in the audit log; returns null when it would have expired already. The query builder has
   * no insert with a condition.
   */
  insert(key: NewApiKey, by: Author): Promise<ApiKeyRow | null> {
    return this.keys.manager.transaction(async (manager) => {
      const [row] = await rows<ApiKeyRow>(manager, INSERT, [
        key.id,
        key.name,
        key.scopes,
        key.prefix,
        key.hash,
        key.expiresAt?.toISOString() ?? null,
        key.workerIds,
        key.workerTags,
        key.workerCapabilities,
        key.maxFileBytes,
        key.stores,
      ]);
      if (!row) return null;
      const { name, scopes, prefix } = row;
      const after = {
        name,
        scopes,
        prefix,
        ...(row.workerIds && { worker_ids: row.workerIds }),
        ...(row.workerTags && { worker_tags: row.workerTags }),
        ...(row.workerCapabilities && { worker_capabilities: row.workerCapabilities }),
        ...(row.maxFileBytes !== null && { max_file_bytes: Number(row.maxFileBytes) }),
        ...(row.stores && { stores: row.stores }),
        ...(row.expiresAt && { expires_at: row.expiresAt.toISOString() }),
      };
      await recordChange(manager, by, { action: 'key.create', subject: row.id, before: {}, after });
      return row;
    });
  }

  /** The position of a key in the list, or null for an unknown id. */
  findPosition(id: string): Promise<KeyPosition | null> {
    return this.keys.findOne({ select: { id: true, createdAt: true }, where: { id } });
  }

  /** Newest first. @param after null: from the newest on */
  list(after: KeyPosition | null, limit: number): Promise<ApiKeyRow[]> {
    const query = this.keys
      .createQueryBuilder('k')
      .orderBy('k.createdAt', 'DESC')
      .addOrderBy('k.id', 'DESC')
      .limit(limit);
    if (after) query.where('(k.createdAt, k.id) < (:createdAt, :id)', { ...after });
    return query.getMany();
  }

  /**
   * Revokes a key, records it in the audit log and returns its hash; null for an unknown id. One that was revoked before
   * stays as it is.
   */
  revoke(id: string, by: Author): Promise<string | null> {
    return this.keys.manager.transaction(async (manager) => {
      const keys = manager.getRepository(ApiKeyEntity);
      const key = await lockKey(keys, id);
      if (!key || key.revokedAt !== null) return key?.hash ?? null;
      await keys.update({ id }, { revokedAt: () => "date_trunc('milliseconds', now())" });
      await recordChange(manager, by, {
        action: 'key.revoke',
        subject: id,
        before: { name: key.name, revoked: false },
        after: { name: key.name, revoked: true },
      });
      return key.hash;
    });
  }

  /**
   * Changes limits of a key, and records it in the audit log.
   * @returns null: there is no such key
   */
  change(id: string, limits: KeyLimits, by: Author): Promise<ApiKeyEntity | null> {
    return this.keys.manager.transaction(async (manager) => {
      const keys = manager.getRepository(ApiKeyEntity);
      const key = await lockKey(keys, id);
      if (!key || Object.keys(limits).length === 0) return key;
      await keys.update({ id }, limits);
      const changed = { ...key, ...limits };
      const [before, after] = [toChange(key), toChange(changed)];
      await recordChange(manager, by, { action: 'key.update', subject: id, before, after });
      return changed;
    });
  }

  /** The usable keys with these hashes. */
  async findUsable(hashes: readonly string[]): Promise<UsableKey[]> {
    const { entities, raw } = await this.keys
      .createQueryBuilder('k')
      .addSelect('k.hash')
      .addSelect('(extract(epoch from k.expires_at - clock_timestamp()) * 1000)::float8', 'expires_in_ms')
      .where('k.hash = any(:hashes)', { hashes })
      .andWhere(USABLE)
      .getRawAndEntities<{ readonly expires_in_ms: number | null }>();
    return entities.map((key, row) => ({
      ...key,
      expiresInMs: raw[row]?.expires_in_ms ?? null,
    }));
  }

  /** Whether there is a usable key. @param scope that it has; default: any */
  hasUsable(scope?: ApiKeySetting['scope']): Promise<boolean> {
    const query = this.keys.createQueryBuilder('k').where(USABLE);
    if (scope !== undefined) query.andWhere(':scope = any(k.scopes)', { scope });
    return query.getExists();
  }

  /**
   * Moves the last use of keys forward. Locks the rows in id order, so that two processes cannot deadlock.
   * @param uses ids, and how many milliseconds ago each was used
   */
  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    const source = unnestRows(
      { id: 'uuid', age_ms: 'double precision' },
      [...uses].map(([id, ageMs]) => ({ id, age_ms: ageMs })),
    );
    await execute(
      this.keys.manager,
      `with used as (
         select k.id, date_trunc('milliseconds', now()) - v.age_ms * interval '1 millisecond' as t
           from ${source.sql}
           join ${API_KEYS.name} k on k.id = v.id
          order by k.id
            for no key update of k
       )
       update ${API_KEYS.name} k
          set last_used_at = used.t
         from used
        where k.id = used.id and (k.last_used_at is null or k.last_used_at < used.t)`,
      source.params,
    );
  }
}

/** A key with its hash. */
function lockKey(keys: Repository<ApiKeyEntity>, id: string): Promise<ApiKeyEntity | null> {
  const query = keys.createQueryBuilder('k').addSelect('k.hash').where({ id });
  return query.setLock('pessimistic_write').getOne();
}

/** What the audit log shows of a key that is changed. */
function toChange({ name, maxFileBytes, stores }: ApiKeyEntity): object {
  return { name, max_file_bytes: maxFileBytes === null ? null : Number(maxFileBytes), stores };
}
