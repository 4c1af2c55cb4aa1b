import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { IdempotencyRepository } from '../idempotency/idempotency.repository.js';
import { RunRepository } from '../storage/run.repository.js';
import { CONTENDED, NOTHING, traceOfRow, type Claim, type ClaimedRun, type ClaimOutcome } from './claim.js';

/** Claims with an idempotency key: sent again, they are answered with what they got the first time. */
@Injectable()
export class ClaimReplays {
  constructor(
    private readonly idempotency: IdempotencyRepository,
    private readonly runs: RunRepository,
  ) {}

  /**
   * Answers those of the claims that were served before.
   * @param outcomes one a claim; written for those that are answered
   * @returns the places of the others that are still wanted
   */
  async answer(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<number[]> {
    const claimed = await this.#claimed(manager, claims);
    const held = await this.#held(manager, claims, claimed);
    const seen = new Set<string>();
    return claims.flatMap(({ idempotency, workerId, stillWanted }, at) => {
      const ids = idempotency && claimed.get(idempotency.scope);
      if (ids) {
        const runs = ids.flatMap((id) => held.get(id) ?? []).filter(({ run }) => run.workerId === workerId);
        outcomes[at] = { kind: 'replayed', runs };
        return [];
      }
      if (idempotency && seen.has(idempotency.scope)) {
        // The other one with this key is in this very group: the next try finds what it got.
        outcomes[at] = CONTENDED;
        return [];
      }
      if (idempotency) seen.add(idempotency.scope);
      return stillWanted() ? [at] : [];
    });
  }

  /** Keeps what claims got, for when they are sent again. */
  async keep(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: readonly ClaimOutcome[],
  ): Promise<void> {
    const keys = claims.flatMap(({ idempotency }, at) => {
      const outcome = outcomes[at];
      if (!idempotency || outcome?.kind !== 'served') return [];
      return [{ ...idempotency, runIds: outcome.runs.map(({ run }) => run.id) }];
    });
    if (keys.length === 0) return;
    await this.idempotency.insertClaims(manager, keys);
    const announcement = claims.find((claim) => claim.idempotency && claim.announcement)?.announcement;
    if (announcement) await this.idempotency.announceServed(manager, announcement);
  }

  /** A claim that got nothing because the same claim was being served elsewhere has to try again: it finds what that got. */
  async lookAgain(manager: EntityManager, claims: readonly Claim[], outcomes: ClaimOutcome[]): Promise<void> {
    const empty = claims.map(({ idempotency }, at) =>
      outcomes[at] === NOTHING ? idempotency?.scope : undefined,
    );
    const scopes = empty.filter((scope) => scope !== undefined);
    if (scopes.length === 0) return;
    const claimed = await this.idempotency.findClaimed(manager, scopes);
    for (const [at, scope] of empty.entries()) {
      if (scope !== undefined && claimed.has(scope)) outcomes[at] = CONTENDED;
    }
  }

  /** Ids of the runs that claims with the same keys got, by scope. */
  async #claimed(
    manager: EntityManager,
    claims: readonly Claim[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    const scopes = claims.flatMap(({ idempotency }) => idempotency?.scope ?? []);
    return scopes.length === 0 ? new Map() : this.idempotency.findClaimed(manager, scopes);
  }

  /** Those of the runs that are in the hands of a worker of these claims, by id. */
  async #held(
    manager: EntityManager,
    claims: readonly Claim[],
    claimed: ReadonlyMap<string, readonly string[]>,
  ): Promise<ReadonlyMap<string, ClaimedRun>> {
    const runIds = [...claimed.values()].flat();
    if (runIds.length === 0) return new Map();
    const workerIds = claims.map(({ workerId }) => workerId);
    const held = await this.runs.listHeldBy(manager, runIds, workerIds);
    return new Map(
      held.map(({ image, inputs, traceparent, tracestate, ...run }) => [
        run.id,
        { run, image, inputs, trace: traceOfRow({ traceparent, tracestate }) },
      ]),
    );
  }
}
