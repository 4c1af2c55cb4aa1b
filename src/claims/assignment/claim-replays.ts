import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { IdempotencyRepository } from '../../runs/idempotency/idempotency.repository.js';
import { RunRepository, type HeldByClaim } from '../../runs/storage/run.repository.js';
import { bytesOfGroup } from '../../runs/storage/run-views.js';
import {
  CONTENDED,
  EMPTY,
  POSTPONED,
  type Claim,
  type ClaimedRun,
  type ClaimOutcome,
} from '../../runs/journal/claim.js';

/** Answers repeated claims with the same idempotency key with the runs of the first one. */
@Injectable()
export class ClaimReplays {
  constructor(
    private readonly idempotency: IdempotencyRepository,
    private readonly runs: RunRepository,
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxAnswerBytes'>,
  ) {}

  /** Writes the outcomes of claims whose key was served before. @returns indexes of the claims still to be served */
  async answer(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<number[]> {
    const scopes = claims.flatMap(({ idempotency }) => idempotency?.scope ?? []);
    const claimed = await this.#findClaimed(manager, scopes);
    const held = await this.#findHeld(manager, claims, [...claimed.values()]);
    const seen = new Set<string>();
    return claims.flatMap(({ idempotency, workerId, stillWanted }, at) => {
      const ids = idempotency && claimed.get(idempotency.scope);
      if (ids) {
        const runs = ids.flatMap((id) => held.get(id) ?? []).filter(({ run }) => run.workerId === workerId);
        outcomes[at] = runs.every(({ isRead }) => isRead) ? { kind: 'replayed', runs } : POSTPONED;
        return [];
      }
      if (idempotency && seen.has(idempotency.scope)) {
        // The first claim with this key is in the same group: the next try finds its runs.
        outcomes[at] = CONTENDED;
        return [];
      }
      if (idempotency) seen.add(idempotency.scope);
      return stillWanted() ? [at] : [];
    });
  }

  /** Stores which runs claims with a key got. */
  async store(
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
  }

  /** Marks as contended the empty claims whose key another process served meanwhile: the next try finds its runs. */
  async recheck(manager: EntityManager, claims: readonly Claim[], outcomes: ClaimOutcome[]): Promise<void> {
    const empty = claims.map(({ idempotency }, at) =>
      outcomes[at] === EMPTY ? idempotency?.scope : undefined,
    );
    const claimed = await this.#findClaimed(
      manager,
      empty.filter((scope) => scope !== undefined),
    );
    for (const [at, scope] of empty.entries()) {
      if (scope !== undefined && claimed.has(scope)) outcomes[at] = CONTENDED;
    }
  }

  /** Ids of the runs that claims with these keys got, by scope. */
  async #findClaimed(
    manager: EntityManager,
    scopes: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    return scopes.length === 0 ? new Map() : this.idempotency.findClaimed(manager, scopes);
  }

  /** Those of the runs that workers of these claims still hold, by id. @param claimed the runs of each earlier claim */
  async #findHeld(
    manager: EntityManager,
    claims: readonly Claim[],
    claimed: readonly (readonly string[])[],
  ): Promise<ReadonlyMap<string, ClaimedRun & Pick<HeldByClaim, 'isRead'>>> {
    if (claimed.length === 0) return new Map();
    const workerIds = claims.map(({ workerId }) => workerId);
    const maxBytes = bytesOfGroup(this.settings.maxAnswerBytes);
    const held = await this.runs.listHeldBy(manager, claimed, workerIds, maxBytes);
    return new Map(held.map((run) => [run.id, { ...run, run }]));
  }
}
