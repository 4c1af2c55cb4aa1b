import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, unnestRows } from '../database/sql.js';

/** A creation's claim to be the only one with its key. */
export interface IdempotencyClaim {
  /** What the key belongs to, and the key: a digest. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
  /** The run that the creation makes if it is the first with this key. */
  readonly runId: string;
}

/** SQL of the table `idempotency_keys`. */
@Injectable()
export class IdempotencyRepository {
  /**
   * Registers keys and answers, by scope, the claim that counts: this one, or an earlier one. A key that another
   * transaction is registering or removing is waited for, and none can be removed before this transaction ends; the
   * keys are taken in order and before anything else is locked, so that nobody waits in a circle.
   */
  async register(
    manager: EntityManager,
    claims: readonly IdempotencyClaim[],
  ): Promise<Map<string, IdempotencyClaim>> {
    const first = new Map(claims.toReversed().map((claim) => [claim.scope, claim]));
    const source = unnestRows(
      { scope: 'text', request_hash: 'text', run_id: 'uuid' },
      [...first.values()].map(({ scope, requestHash, runId }) => ({
        scope,
        request_hash: requestHash,
        run_id: runId,
      })),
    );
    // An update that changes nothing, because only then an earlier row is locked and answered.
    const counting = await rows<IdempotencyClaim>(
      manager,
      `insert into idempotency_keys (scope, request_hash, run_id, created_at)
       select scope, request_hash, run_id, clock_timestamp()
         from ${source.sql}
        order by scope
           on conflict (scope) do update
          set scope = excluded.scope
    returning scope, request_hash as "requestHash", run_id as "runId"`,
      source.params,
    );
    return new Map(counting.map((claim) => [claim.scope, claim]));
  }

  /** The claim that counts for a scope, or null. */
  async find(manager: EntityManager, scope: string): Promise<IdempotencyClaim | null> {
    const [claim] = await rows<IdempotencyClaim>(
      manager,
      `select scope, request_hash as "requestHash", run_id as "runId"
         from idempotency_keys
        where scope = $1`,
      [scope],
    );
    return claim ?? null;
  }

  /** Removes keys that are older than the time, a bounded number of them; answers how many. */
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
