import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { IdempotencyKeyEntity } from '../../database/entities/idempotency-key.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute, rows } from '../../database/sql.js';

/** Channel on which processes announce now and then that they serve claims with keys, by a name of their own. */
export const SERVED_CHANNEL = 'longshore_served';

/** A request's key, to be registered. */
export interface IdempotencyKey {
  /** What the key belongs to, and the key: a digest. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
  /** The run that the request makes or is about. */
  readonly runId: string;
}

/** The entry that counts for a key. */
export interface RegisteredKey {
  readonly scope: string;
  readonly requestHash: string;
  /** Null: the key of a claim. */
  readonly runId: string | null;
  /** True when this transaction made the entry. */
  readonly isNew: boolean;
}

/** The key of a claim that got runs. */
export interface ClaimKey {
  readonly scope: string;
  readonly requestHash: string;
  readonly runIds: readonly string[];
}

const KEYS = new EntityTable(IdempotencyKeyEntity);

const REGISTERED = ['scope', 'requestHash', 'runId'] as const;
const NEW_KEYS = KEYS.unnest(REGISTERED);
// An update that changes nothing, because only then an earlier row is locked and returned. A row that has just been
// inserted has no xmax.
const REGISTER = `insert into ${KEYS.name} as k (${KEYS.columns(REGISTERED)}, created_at)
       select ${KEYS.columns(REGISTERED, 'v')}, clock_timestamp()
         from ${NEW_KEYS.sql}
        order by v.scope
           on conflict (scope) do update
          set scope = excluded.scope
    returning ${KEYS.select('k', REGISTERED)}, k.xmax = 0 as "isNew"`;

const NEW_CLAIMS = KEYS.unnest(['scope', 'requestHash'], { extra: { claimed: 'json' } });
const INSERT_CLAIMS = `insert into ${KEYS.name} (${KEYS.columns(['scope', 'requestHash', 'claimed', 'createdAt'])})
       select scope, request_hash,
              array(select id::uuid from json_array_elements_text(claimed) as id),
              clock_timestamp()
         from ${NEW_CLAIMS.sql}
        order by scope`;

/** SQL of the table `idempotency_keys`. */
@Injectable()
export class IdempotencyRepository {
  /**
   * Registers keys and answers, by scope, the entry that counts: this one, or an earlier one. A key that another
   * transaction is registering or removing is waited for, and none can be removed before this transaction ends; the
   * keys are taken in order and before anything else is locked, so that nobody waits in a circle.
   */
  async register(
    manager: EntityManager,
    keys: readonly IdempotencyKey[],
  ): Promise<Map<string, RegisteredKey>> {
    const first = new Map(keys.toReversed().map((key) => [key.scope, key]));
    const counting = await rows<RegisteredKey>(manager, REGISTER, NEW_KEYS.params([...first.values()]));
    return new Map(counting.map((key) => [key.scope, key]));
  }

  /** Gives keys free again whose requests were refused. */
  async forget(manager: EntityManager, scopes: readonly string[]): Promise<void> {
    await execute(
      manager,
      `delete from ${KEYS.name}
        where scope = any($1::text[])`,
      [scopes],
    );
  }

  /**
   * Keeps which runs claims got. A claim with the same key that another transaction is just serving is waited for.
   * @throws QueryFailedError 23505 when that one kept its runs first
   */
  async insertClaims(manager: EntityManager, keys: readonly ClaimKey[]): Promise<void> {
    const params = NEW_CLAIMS.params(keys, { claimed: ({ runIds }) => JSON.stringify(runIds) });
    await execute(manager, INSERT_CLAIMS, params);
  }

  /** Has the commit tell every process that the named one serves claims with keys. */
  async announceServed(manager: EntityManager, name: string): Promise<void> {
    await execute(manager, `select pg_notify('${SERVED_CHANNEL}', $1::text)`, [name]);
  }

  /** The runs that claims with these keys got, by scope; nothing for a key under which no claim got runs. */
  async findClaimed(
    manager: EntityManager,
    scopes: readonly string[],
  ): Promise<Map<string, readonly string[]>> {
    const found = await rows<{ scope: string; claimed: string[] }>(
      manager,
      `select scope, claimed
         from ${KEYS.name}
        where scope = any($1::text[])
          and claimed is not null`,
      [scopes],
    );
    return new Map(found.map(({ scope, claimed }) => [scope, claimed]));
  }

  /** The entry that counts for a scope, or null. */
  async find(manager: EntityManager, scope: string): Promise<RegisteredKey | null> {
    const [key] = await rows<RegisteredKey>(
      manager,
      `select scope, request_hash as "requestHash", run_id as "runId", false as "isNew"
         from ${KEYS.name}
        where scope = $1`,
      [scope],
    );
    return key ?? null;
  }

  /**
   * Removes keys that are older than the time, a bounded number of them, and returns how many. In SQL because the query
   * builder has no `delete` with a limit and `skip locked`.
   */
  removeBefore(manager: EntityManager, time: Date, limit: number): Promise<number> {
    return execute(
      manager,
      `delete from ${KEYS.name}
        where scope in (
                select scope
                  from ${KEYS.name}
                 where created_at < $1
                 order by created_at
                 limit $2
                   for update skip locked
              )`,
      [time.toISOString(), limit],
    );
  }
}
