import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';
import { HeldRunRepository } from '../held-run.repository.js';
import { IdempotencyRepository } from '../idempotency.repository.js';
import { QueueRepository } from '../queue.repository.js';
import { decide } from '../run-machine/decide.js';
import { isRejected } from '../run-machine/run-command.js';
import type { Run } from '../run-machine/run.js';
import { RunRepository } from '../run.repository.js';
import type { Assignment, Claimant, ClaimDesk, HeldRun, QueuedRun } from '../scheduling-strategy.js';
import type { Idempotency } from './key-book.js';

/** A worker's wish for work. */
export interface Claim {
  readonly workerId: string;
  readonly desk: ClaimDesk;
  readonly idempotency?: Idempotency | undefined;
  /** Asked at the moment of handing out: false when the caller has gone away. */
  readonly stillWanted: () => boolean;
}

/** A run that a claim got. */
export interface ClaimedRun {
  readonly run: Run;
  readonly image: string;
  readonly inputs: JsonObject;
}

/**
 * What became of a claim. `replayed`: the runs of an earlier claim with the same key that are still with the worker.
 * `nothing`: no run for this worker. `contended`: there may be one, but others were at it; worth another try.
 * `refused`: the worker is unknown, inactive or draining, or its caller has gone.
 */
export interface ClaimOutcome {
  readonly kind: 'served' | 'replayed' | 'nothing' | 'contended' | 'refused';
  readonly runs: readonly ClaimedRun[];
}

/** How often a strategy may choose again after others took what it had chosen. */
const ROUNDS = 3;

const NOTHING: ClaimOutcome = { kind: 'nothing', runs: [] };
const CONTENDED: ClaimOutcome = { kind: 'contended', runs: [] };
const REFUSED: ClaimOutcome = { kind: 'refused', runs: [] };

/** An assignment with what it names. */
interface Assigning {
  /** Place of the claimant. */
  readonly claim: number;
  readonly worker: Claimant;
  readonly run: Run;
  readonly gpuId: number | null;
}

/** Hands pending runs to the claims of a group, within the group's transaction. */
@Injectable()
export class HandOut {
  constructor(
    private readonly queue: QueueRepository,
    private readonly runs: RunRepository,
    private readonly held: HeldRunRepository,
    private readonly idempotency: IdempotencyRepository,
  ) {}

  /**
   * Serves claims, with a number of statements that does not depend on how many they are.
   * @param now the group's time
   * @returns one outcome a claim, in their order
   */
  async serve(manager: EntityManager, claims: readonly Claim[], now: Date): Promise<ClaimOutcome[]> {
    const outcomes = claims.map(() => REFUSED);
    const open = await this.#replay(manager, claims, outcomes);
    for (const desk of new Set(open.map((at) => claims[at]?.desk))) {
      if (!desk) continue;
      const served = open.filter((at) => claims[at]?.desk === desk);
      await this.#serveDesk(manager, { desk, claims, served, outcomes, now });
    }
    await this.#keepKeys(manager, claims, outcomes);
    await this.#lookAgain(manager, claims, outcomes);
    return outcomes;
  }

  /** A claim that got nothing because the same claim was being served elsewhere has to try again: it finds what that got. */
  async #lookAgain(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<void> {
    const empty = claims.flatMap(({ idempotency }, at) =>
      idempotency && outcomes[at] === NOTHING ? [{ at, scope: idempotency.scope }] : [],
    );
    if (empty.length === 0) return;
    const claimed = await this.idempotency.findClaimed(
      manager,
      empty.map(({ scope }) => scope),
    );
    for (const { at, scope } of empty) if (claimed.has(scope)) outcomes[at] = CONTENDED;
  }

  /** Answers claims that were served before; answers the places of the others that are still wanted. */
  async #replay(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<number[]> {
    const scopes = claims.flatMap(({ idempotency }) => (idempotency ? [idempotency.scope] : []));
    const claimed =
      scopes.length === 0
        ? new Map<string, readonly string[]>()
        : await this.idempotency.findClaimed(manager, scopes);
    const runIds = [...claimed.values()].flat();
    const workerIds = claims.map(({ workerId }) => workerId);
    const held = runIds.length === 0 ? [] : await this.runs.listHeldBy(manager, runIds, workerIds);
    const seen = new Set<string>();
    return claims.flatMap(({ idempotency, workerId, stillWanted }, at) => {
      const ids = idempotency && claimed.get(idempotency.scope);
      if (ids) {
        const runs = held
          .filter((run) => ids.includes(run.id) && run.workerId === workerId)
          .map(({ image, inputs, ...run }) => ({ run, image, inputs }));
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

  async #serveDesk(
    manager: EntityManager,
    work: {
      readonly desk: ClaimDesk;
      readonly claims: readonly Claim[];
      readonly served: readonly number[];
      readonly outcomes: ClaimOutcome[];
      readonly now: Date;
    },
  ): Promise<void> {
    const { desk, claims, served, outcomes, now } = work;
    const idOf = (at: number): string => claims[at]?.workerId ?? '';
    const workers = await desk.findClaiming([...new Set(served.map(idOf))], manager);
    const admitted = served.filter((at) => workers.has(idOf(at)));
    if (admitted.length === 0) return;
    for (const at of admitted) outcomes[at] = NOTHING;
    // A strategy that counts what a worker holds sees each worker once a group.
    const first = new Map(admitted.toReversed().map((at) => [idOf(at), at]));
    const sole = desk.strategy.takesHead ? admitted : admitted.filter((at) => first.get(idOf(at)) === at);
    for (const at of admitted) if (!sole.includes(at)) outcomes[at] = CONTENDED;
    const held = desk.strategy.takesHead ? [] : await this.#holdings(manager, sole.map(idOf));
    const claimants = sole.flatMap((at): Claimant[] => {
      const worker = workers.get(idOf(at));
      return worker ? [{ ...worker, held: held.filter(({ workerId }) => workerId === worker.id) }] : [];
    });
    const { chosen, isContended } = desk.strategy.takesHead
      ? await this.#takeHead(manager, desk, claimants, now)
      : await this.#choose(manager, desk, claimants, now);
    const given = await this.#assign(manager, chosen, now);
    for (const [i, at] of sole.entries()) {
      const runs = given.get(i) ?? [];
      if (runs.length > 0) outcomes[at] = { kind: 'served', runs };
      else if (isContended) outcomes[at] = CONTENDED;
    }
    if (!desk.strategy.takesHead || chosen.length === sole.length) return;
    // Rows that others hold just now look like an empty queue to whoever passes them over.
    if (await this.queue.isEmpty(manager)) return;
    for (const at of sole) if (outcomes[at] === NOTHING) outcomes[at] = CONTENDED;
  }

  /** What the workers hold. Other processes wait meanwhile before they hand anything to one of them. */
  async #holdings(manager: EntityManager, workerIds: readonly string[]): Promise<HeldRun[]> {
    await this.queue.lockWorkers(manager, workerIds);
    return this.held.listHeld(manager, workerIds);
  }

  async #takeHead(
    manager: EntityManager,
    { strategy }: ClaimDesk,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<{ chosen: Assigning[]; isContended: boolean }> {
    const { limit } = strategy.candidatesFor(claimants, now);
    const candidates = await this.queue.lockHead(manager, limit);
    const { assignments } = strategy.choose(claimants, candidates, { now, reachable: new Set() });
    return { chosen: matched(assignments, claimants, candidates), isContended: false };
  }

  async #choose(
    manager: EntityManager,
    desk: ClaimDesk,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<{ chosen: Assigning[]; isContended: boolean }> {
    const { strategy } = desk;
    const ids = claimants.map(({ id }) => id);
    const chosen: Assigning[] = [];
    const taken = new Set<string>();
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // What was in other hands may come back to the queue, and nobody would be told.
      const isContended = chosen.length < taken.size;
      const query = strategy.candidatesFor(present, now);
      const candidates = await this.queue.list(manager, query, ids, [...taken]);
      if (candidates.length === 0) return { chosen, isContended };
      const reservers = candidates.flatMap(({ reservedFor }) => reservedFor ?? []);
      const reachable = new Set(
        reservers.length === 0 ? [] : (await desk.findClaiming([...new Set(reservers)], manager)).keys(),
      );
      const choice = strategy.choose(present, candidates, { now, reachable });
      if (choice.reservations?.length) await this.queue.reserve(manager, choice.reservations);
      if (choice.passedOver?.length) await this.queue.notePassedOver(manager, choice.passedOver, now);
      const wanted = matched(choice.assignments, present, candidates);
      if (wanted.length === 0) return { chosen, isContended };
      const locked = await this.queue.lockAll(
        manager,
        wanted.map(({ run }) => run.id),
      );
      // As they are now: what was listed may have changed until it was locked.
      const mine = new Map(locked.map((run) => [run.id, run]));
      const got = wanted.flatMap((assigning): Assigning[] => {
        const run = mine.get(assigning.run.id);
        return run ? [{ ...assigning, run }] : [];
      });
      chosen.push(...got);
      for (const { run } of wanted) taken.add(run.id);
      if (got.length === wanted.length) return { chosen, isContended };
      if (round === ROUNDS) return { chosen, isContended: true };
      present = present.map((claimant, i) => ({
        ...claimant,
        held: [...claimant.held, ...got.filter(({ claim }) => claim === i).map(heldRunOf)],
      }));
    }
  }

  /** Writes the assignments; answers what each claim got, by its place. */
  async #assign(
    manager: EntityManager,
    chosen: readonly Assigning[],
    now: Date,
  ): Promise<Map<number, ClaimedRun[]>> {
    const assigned = chosen.flatMap(({ claim, worker, run, gpuId }) => {
      const outcome = decide(run, { type: 'assign', workerId: worker.id, gpuId }, now);
      return isRejected(outcome) ? [] : [{ claim, run: outcome.run }];
    });
    const given = new Map<number, ClaimedRun[]>();
    if (assigned.length === 0) return given;
    const runs = assigned.map(({ run }) => run);
    await this.queue.remove(
      manager,
      runs.map(({ id }) => id),
    );
    const written = await this.runs.assign(manager, runs);
    const carried = new Map(written.map((row) => [row.id, row]));
    for (const { claim, run } of assigned) {
      const row = carried.get(run.id);
      if (!row) continue;
      given.set(claim, [...(given.get(claim) ?? []), { run, image: row.image, inputs: row.inputs }]);
    }
    return given;
  }

  async #keepKeys(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: readonly ClaimOutcome[],
  ): Promise<void> {
    const keys = claims.flatMap(({ idempotency }, at) => {
      const outcome = outcomes[at];
      if (!idempotency || outcome?.kind !== 'served') return [];
      return [{ ...idempotency, runIds: outcome.runs.map(({ run }) => run.id) }];
    });
    if (keys.length > 0) await this.idempotency.insertClaims(manager, keys);
  }
}

/** What a strategy chose, without what it was not asked for: each run once, and only candidates. */
function matched(
  assignments: readonly Assignment[],
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
): Assigning[] {
  const free = new Map(candidates.map((run) => [run.id, run]));
  return assignments.flatMap(({ claim, runId, gpuId }) => {
    const worker = claimants[claim];
    const run = free.get(runId);
    if (!worker || !run || !free.delete(runId)) return [];
    return [{ claim, worker, run, gpuId }];
  });
}

function heldRunOf({ run, worker, gpuId }: Assigning): HeldRun {
  const { id: runId, cpu, ramMb, vramMb } = run;
  return { runId, workerId: worker.id, cpu, ramMb, vramMb, gpuId };
}
