import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { QueueRepository } from '../queue/queue.repository.js';
import type { Run } from '../machine/run.js';
import type { Assignment, Claimant, ClaimContext, HeldRun, QueuedRun } from '../scheduling-strategy.js';

/** How often a strategy may choose again after others took what it had chosen. */
const ROUNDS = 3;

/** An assignment with what it names. */
export interface Assigning {
  /** Place of the claimant. */
  readonly claim: number;
  readonly worker: Claimant;
  readonly run: Run;
  readonly gpuId: number | null;
}

/** What was chosen and locked. */
export interface Chosen {
  readonly assignments: readonly Assigning[];
  /** True when more might have been chosen, had others not been at it. */
  readonly isContended: boolean;
}

/** Has a strategy choose runs of the queue for claimants, and locks what it chose. */
@Injectable()
export class CandidateSelector {
  constructor(private readonly queue: QueueRepository) {}

  /** For a strategy that takes the head of the queue: that is locked as it is read, so what is chosen is there. */
  async takeHead(
    manager: EntityManager,
    { strategy }: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Chosen> {
    const { limit } = strategy.candidatesFor(claimants, now);
    const candidates = await this.queue.lockHead(manager, limit);
    const { assignments } = strategy.choose(claimants, candidates, { now, reachable: new Set() });
    return { assignments: matched(assignments, claimants, candidates), isContended: false };
  }

  /** For a strategy that looks at workers and runs: it chooses again where others took what it had chosen. */
  async choose(
    manager: EntityManager,
    desk: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Chosen> {
    const { strategy } = desk;
    const ids = claimants.map(({ id }) => id);
    const assignments: Assigning[] = [];
    const taken = new Set<string>();
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // What was in other hands may come back to the queue, and nobody would be told.
      const isContended = assignments.length < taken.size;
      const query = strategy.candidatesFor(present, now);
      const candidates = await this.queue.list(manager, query, ids, [...taken]);
      if (candidates.length === 0) return { assignments, isContended };
      const reachable = await reservers(manager, desk, candidates);
      const choice = strategy.choose(present, candidates, { now, reachable });
      if (choice.reservations?.length) await this.queue.reserve(manager, choice.reservations);
      if (choice.passedOver?.length) await this.queue.notePassedOver(manager, choice.passedOver, now);
      const wanted = matched(choice.assignments, present, candidates);
      if (wanted.length === 0) return { assignments, isContended };
      const got = await this.#lock(manager, wanted);
      assignments.push(...got);
      for (const { run } of wanted) taken.add(run.id);
      if (got.length === wanted.length) return { assignments, isContended };
      if (round === ROUNDS) return { assignments, isContended: true };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          got.filter(({ claim }) => claim === i),
        ),
      );
    }
  }

  /** Those of the assignments whose runs are still to be had, with the runs as they are now. */
  async #lock(manager: EntityManager, wanted: readonly Assigning[]): Promise<Assigning[]> {
    const locked = await this.queue.lockAll(
      manager,
      wanted.map(({ run }) => run.id),
    );
    // What was listed may have changed until it was locked.
    const mine = new Map(locked.map((run) => [run.id, run]));
    return wanted.flatMap((assigning): Assigning[] => {
      const run = mine.get(assigning.run.id);
      return run ? [{ ...assigning, run }] : [];
    });
  }
}

/** Of the workers that are kept free for candidates, those that can be reached. */
async function reservers(
  manager: EntityManager,
  desk: ClaimContext,
  candidates: readonly QueuedRun[],
): Promise<ReadonlySet<string>> {
  const ids = new Set(candidates.flatMap(({ reservedFor }) => reservedFor ?? []));
  return new Set(ids.size === 0 ? [] : (await desk.findClaiming([...ids], manager)).keys());
}

/** What a strategy chose, without what it was not asked for: each run once, only candidates, and no more than a claim takes. */
function matched(
  assignments: readonly Assignment[],
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
): Assigning[] {
  const free = new Map(candidates.map((run) => [run.id, run]));
  const given = claimants.map(() => 0);
  return assignments.flatMap(({ claim, runId, gpuId }) => {
    const worker = claimants[claim];
    const run = free.get(runId);
    const before = given[claim] ?? 0;
    if (!worker || !run || before >= (worker.max ?? Infinity)) return [];
    free.delete(runId);
    given[claim] = before + 1;
    return [{ claim, worker, run, gpuId }];
  });
}

/** The claimant once it has got these runs. */
function withRuns(claimant: Claimant, got: readonly Assigning[]): Claimant {
  const { held, max } = claimant;
  return {
    ...claimant,
    held: [...held, ...got.map(heldRunOf)],
    ...(max === undefined ? {} : { max: max - got.length }),
  };
}

function heldRunOf({ run, worker, gpuId }: Assigning): HeldRun {
  const { id: runId, cpu, ramMb, vramMb } = run;
  return { runId, workerId: worker.id, cpu, ramMb, vramMb, gpuId };
}
