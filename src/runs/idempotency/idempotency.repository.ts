import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, RowArrays, rows, type SqlExecutor } from '../../database/sql/sql.js';
import { IdempotencyMismatch } from '../run.errors.js';

export interface IdempotencyKey extends Idempotency {
  /** The run that the request creates or changes, or the bulk operation that it starts. */
  readonly runId: string;
}

export interface RegisteredKey extends Idempotency {
  /** Null for the key of a claim. */
  readonly runId: string | null;
  /** True when this transaction made the entry. */
  readonly isNew: boolean;
  readonly createdAt: Date;
}

// The update changes nothing: it locks an earlier row and returns it. A row that was just inserted has no xmax.
const REGISTER = `insert into idempotency_keys as k (scope, request_hash, run_id, created_at)
       select v.scope, v.request_hash, v.run_id, clock_timestamp()
         from unnest($1::text[], $2::text[], $3::uuid[]) as v (scope, request_hash, run_id)
        order by v.scope
           on conflict (scope) do update
          set scope = excluded.scope
    returning k.scope, k.request_hash as "requestHash", k.run_id as "runId", k.xmax = 0 as "isNew", k.created_at as "createdAt"`;
const NEW_KEYS = RowArrays.of<'scope' | 'requestHash' | 'runId'>(REGISTER);

const INSERT_CLAIMS = `insert into idempotency_keys (scope, request_hash, claimed, created_at)
       select scope, request_hash, array(select id::uuid from json_array_elements_text(claimed) as id), clock_timestamp()
         from unnest($1::text[], $2::text[], $3::json[]) as v (scope, request_hash, claimed)
        order by scope`;
const NEW_CLAIMS = RowArrays.of<'scope' | 'requestHash' | 'claimed'>(INSERT_CLAIMS);

@Injectable()
export class IdempotencyRepository {
  /**
   * Registers keys; returns the entries by scope, new or earlier, and locks them until the transaction ends: in order and
   * before anything else, so that transactions cannot deadlock.
   */
  async register(
    manager: EntityManager,
    keys: readonly IdempotencyKey[],
  ): Promise<Map<string, RegisteredKey>> {
    const first = new Map(keys.toReversed().map((key) => [key.scope, key]));
    const stored = await rows<RegisteredKey>(manager, REGISTER, NEW_KEYS.params([...first.values()]));
    return new Map(stored.map((key) => [key.scope, key]));
  }

  /** Releases the keys of refused requests. */
  async forget(manager: EntityManager, scopes: readonly string[]): Promise<void> {
    await execute(
      manager,
      `delete from idempotency_keys
        where scope = any($1::text[])`,
      [scopes],
    );
  }

  /** Stores which runs claims got. @throws QueryFailedError 23505 when another transaction served the same key */
  async insertClaims(
    manager: EntityManager,
    keys: readonly (Idempotency & { readonly runIds: readonly string[] })[],
  ): Promise<void> {
    const params = NEW_CLAIMS.params(keys, { claimed: ({ runIds }) => JSON.stringify(runIds) });
    await execute(manager, INSERT_CLAIMS, params);
  }

  /** The runs that claims with these keys got, by scope; without the keys of claims that got none. */
  async findClaimed(
    executor: SqlExecutor,
    scopes: readonly string[],
  ): Promise<Map<string, readonly string[]>> {
    const found = await rows<{ scope: string; claimed: string[] }>(
      executor,
      `select scope, claimed
         from idempotency_keys
        where scope = any($1::text[])
          and claimed is not null`,
      [scopes],
    );
    return new Map(found.map(({ scope, claimed }) => [scope, claimed]));
  }

  async find(manager: EntityManager, scope: string): Promise<RegisteredKey | null> {
    const [key] = await rows<RegisteredKey>(
      manager,
      `select scope, request_hash as "requestHash", run_id as "runId", false as "isNew", created_at as "createdAt"
         from idempotency_keys
        where scope = $1`,
      [scope],
    );
    return key ?? null;
  }

  /** Removes up to `limit` keys that are older than the time, except locked ones. @returns how many */
  removeBefore(manager: EntityManager, time: Date, limit: number): Promise<number> {
    return execute(
      manager,
      `delete from idempotency_keys
        where scope in (
                select scope
                  from idempotency_keys
                 where created_at < $1
                 order by created_at
                 limit $2
                   for update skip locked
              )`,
      [time.toISOString(), limit],
    );
  }
}

export interface Idempotency {
  /** Digest of the key, API key, method and path. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
}

/** The registered idempotency keys of one group: tells first requests from replays. A rejected request uses no key. */
export class IdempotencyLedger {
  readonly #used = new Set<string>();

  /** @param registered the stored keys by scope, whether this group inserted or found them */
  constructor(private readonly registered: ReadonlyMap<string, RegisteredKey>) {}

  /** Id of the run of an earlier request with this key, or null. @throws IdempotencyMismatch */
  replayOf(idempotency: Idempotency | undefined): string | null {
    const key = idempotency && this.registered.get(idempotency.scope);
    if (!key) return null;
    if (key.requestHash !== idempotency.requestHash || key.runId === null) throw new IdempotencyMismatch();
    return key.isNew && !this.#used.has(key.scope) ? null : key.runId;
  }

  use(idempotency: Idempotency | undefined): void {
    if (idempotency) this.#used.add(idempotency.scope);
  }

  /** Scopes of keys that this group inserted and no accepted request used. */
  get unused(): string[] {
    return [...this.registered.values()].flatMap(({ isNew, scope }) =>
      isNew && !this.#used.has(scope) ? [scope] : [],
    );
  }
}
