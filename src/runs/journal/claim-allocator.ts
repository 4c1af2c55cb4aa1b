import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { HeldRunRepository } from '../storage/held-run.repository.js';
import { QueueRepository } from '../queue/queue.repository.js';
import { decide } from '../machine/decide.js';
import { isRejected } from '../machine/run-command.js';
import { RunRepository } from '../storage/run.repository.js';
import type { Claimant, ClaimContext, ClaimingWorker, HeldRun } from '../scheduling-strategy.js';
import {
  CONTENDED,
  NOTHING,
  REFUSED,
  traceOfRow,
  type Claim,
  type ClaimedRun,
  type ClaimOutcome,
} from './claim.js';
import { ClaimReplays } from './claim-replays.js';
import { CandidateSelector, type Assigning, type Chosen } from './candidate-selector.js';

/** Runs that claims of one group which ask for several get together, so that a commit does not grow with what they ask. */
const MOST_RUNS = 2000;

/** Claims of a group at one desk. */
interface Served {
  readonly desk: ClaimContext;
  readonly claims: readonly Claim[];
  /** Places of those that are to be served. */
  readonly places: readonly number[];
  readonly outcomes: ClaimOutcome[];
  readonly now: Date;
}

/** Hands pending runs to the claims of a group, within the group's transaction. */
@Injectable()
export class ClaimAllocator {
  constructor(
    private readonly queue: QueueRepository,
    private readonly runs: RunRepository,
    private readonly held: HeldRunRepository,
    private readonly choice: CandidateSelector,
    private readonly replays: ClaimReplays,
  ) {}

  /**
   * Serves claims, with a number of statements that does not depend on how many they are, nor on what they ask for.
   * @param now the group's time
   * @returns one outcome a claim, in their order
   */
  async serve(manager: EntityManager, claims: readonly Claim[], now: Date): Promise<ClaimOutcome[]> {
    const outcomes = claims.map(() => REFUSED);
    const open = await this.replays.answer(manager, claims, outcomes);
    for (const desk of new Set(open.map((at) => claims[at]?.desk))) {
      if (!desk) continue;
      const places = open.filter((at) => claims[at]?.desk === desk);
      await this.#serveDesk(manager, { desk, claims, places, outcomes, now });
    }
    await this.replays.keep(manager, claims, outcomes);
    await this.replays.lookAgain(manager, claims, outcomes);
    return outcomes;
  }

  async #serveDesk(manager: EntityManager, work: Served): Promise<void> {
    const { desk, claims, places, outcomes, now } = work;
    const idOf = (at: number): string => claims[at]?.workerId ?? '';
    const workers = await desk.findClaiming([...new Set(places.map(idOf))], manager);
    const admitted = places.filter((at) => workers.has(idOf(at)));
    if (admitted.length === 0) return;
    for (const at of admitted) outcomes[at] = NOTHING;
    const { isFifo = false } = desk.strategy;
    // A strategy that counts what a worker holds sees each worker once a group.
    const sole = isFifo ? admitted : firstOfEach(admitted, idOf);
    if (sole.length < admitted.length) {
      for (const at of admitted) outcomes[at] = CONTENDED;
      for (const at of sole) outcomes[at] = NOTHING;
    }
    const held = isFifo ? new Map<string, HeldRun[]>() : await this.#holdings(manager, sole.map(idOf));
    const share = Math.max(1, Math.floor(MOST_RUNS / sole.length));
    const claimants = sole.flatMap((at): Claimant[] => {
      const worker = workers.get(idOf(at));
      return worker ? [claimantOf(worker, held.get(worker.id) ?? [], claims[at]?.max, share)] : [];
    });
    const chosen = isFifo
      ? await this.choice.takeHead(manager, desk, claimants, now)
      : await this.choice.choose(manager, desk, claimants, now);
    await this.#give(manager, work, sole, chosen);
    const isHungry = sole.some((at) => outcomes[at] === NOTHING);
    // Rows that others hold just now look like an empty queue to whoever passes them over.
    if (!isFifo || !isHungry || (await this.queue.isEmpty(manager))) return;
    for (const at of sole) if (outcomes[at] === NOTHING) outcomes[at] = CONTENDED;
  }

  /** What the workers hold, by their id. Other processes wait meanwhile before they hand anything to one of them. */
  async #holdings(
    manager: EntityManager,
    workerIds: readonly string[],
  ): Promise<ReadonlyMap<string, HeldRun[]>> {
    await this.queue.lockWorkers(manager, workerIds);
    const byWorker = new Map<string, HeldRun[]>(workerIds.map((id) => [id, []]));
    for (const run of await this.held.listHeld(manager, workerIds)) byWorker.get(run.workerId)?.push(run);
    return byWorker;
  }

  /** Carries out what was chosen, and answers the claims by it. @param sole places of the claimants */
  async #give(
    manager: EntityManager,
    { outcomes, now }: Served,
    sole: readonly number[],
    { assignments, isContended }: Chosen,
  ): Promise<void> {
    const given = await this.#assign(manager, assignments, now);
    for (const [i, at] of sole.entries()) {
      const runs = given.get(i);
      if (runs) outcomes[at] = { kind: 'served', runs };
      else if (isContended) outcomes[at] = CONTENDED;
    }
  }

  /** Writes the assignments; answers what each claim got, by its place. */
  async #assign(
    manager: EntityManager,
    chosen: readonly Assigning[],
    now: Date,
  ): Promise<ReadonlyMap<number, readonly ClaimedRun[]>> {
    const assigned = chosen.flatMap(({ claim, worker, run, gpuId }) => {
      const outcome = decide(run, { type: 'assign', workerId: worker.id, gpuId }, now);
      return isRejected(outcome) ? [] : [{ claim, run: outcome.run }];
    });
    const given = new Map<number, ClaimedRun[]>();
    if (assigned.length === 0) return given;
    const runs = assigned.map(({ run }) => run);
    const ids = runs.map(({ id }) => id);
    const [, written] = await Promise.all([this.queue.remove(manager, ids), this.runs.assign(manager, runs)]);
    const carried = new Map(written.map((row) => [row.id, row]));
    for (const { claim, run } of assigned) {
      const row = carried.get(run.id);
      if (!row) continue;
      const mine = given.get(claim) ?? [];
      mine.push({ run, image: row.image, inputs: row.inputs, trace: traceOfRow(row) });
      given.set(claim, mine);
    }
    return given;
  }
}

/** The first place of each worker. */
function firstOfEach(places: readonly number[], idOf: (at: number) => string): number[] {
  const seen = new Set<string>();
  return places.filter((at) => !seen.has(idOf(at)) && seen.add(idOf(at)));
}

/** @param share runs that each of the claims gets at most when all of them ask for several */
function claimantOf(
  worker: ClaimingWorker,
  held: readonly HeldRun[],
  max: number | undefined,
  share: number,
): Claimant {
  return { ...worker, held, ...(max === undefined ? {} : { max: Math.min(max, share) }) };
}
