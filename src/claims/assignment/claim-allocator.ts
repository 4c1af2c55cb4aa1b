import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { GroupClaims } from '../../runs/journal/commit-group.js';
import { decide } from '../../runs/machine/decide.js';
import { isRejected, type Policy } from '../../runs/machine/run-command.js';
import type { ClaimableRun } from '../../runs/queue/claimable-runs.js';
import { QueueRepository } from '../../runs/queue/queue.repository.js';
import type { Claimant, ClaimContext, HeldRun } from '../../runs/scheduling-strategy.js';
import { HeldRunRepository } from '../../runs/storage/held-run.repository.js';
import { RunRepository } from '../../runs/storage/run.repository.js';
import { CandidateSelector, type Candidate } from './candidate-selector.js';
import { ClaimReplays } from './claim-replays.js';
import {
  CONTENDED,
  EMPTY,
  REFUSED,
  type Claim,
  type ClaimedRun,
  type ClaimOutcome,
} from '../../runs/journal/claim.js';

/** Maximum number of runs for all claims of a group that ask for several: bounds the size of the commit. */
const MAX_RUNS_PER_GROUP = 2000;

interface Batch {
  readonly context: ClaimContext;
  readonly claims: readonly Claim[];
  /** Indexes of the claims to serve. */
  readonly indexes: readonly number[];
  readonly outcomes: ClaimOutcome[];
  readonly now: Date;
  readonly policy: Policy;
}

/** Assigns pending runs to the claims of a group, in the transaction of the group. */
@Injectable()
export class ClaimAllocator implements GroupClaims {
  constructor(
    private readonly queue: QueueRepository,
    private readonly runs: RunRepository,
    private readonly held: HeldRunRepository,
    private readonly selector: CandidateSelector,
    private readonly replays: ClaimReplays,
  ) {}

  /**
   * Serves claims, in a fixed number of statements per context.
   * @returns one outcome per claim, in order, and runs that became claimable because the claims changed their keys
   */
  async serve(
    manager: EntityManager,
    claims: readonly Claim[],
    now: Date,
    policy: Policy,
  ): Promise<{ readonly outcomes: ClaimOutcome[]; readonly admitted: readonly ClaimableRun[] }> {
    const outcomes = claims.map(() => REFUSED);
    const open = await this.replays.answer(manager, claims, outcomes);
    for (const context of new Set(open.map((at) => claims[at]?.context))) {
      if (!context) continue;
      const indexes = open.filter((at) => claims[at]?.context === context);
      await this.#serveBatch(manager, { context, claims, indexes, outcomes, now, policy });
    }
    const taken = outcomes.flatMap(({ kind, runs }) => (kind === 'served' ? runs.map(({ run }) => run) : []));
    const admitted = await this.queue.admitAfter(manager, taken);
    await this.replays.store(manager, claims, outcomes);
    await this.replays.recheck(manager, claims, outcomes);
    return { outcomes, admitted };
  }

  async #serveBatch(manager: EntityManager, batch: Batch): Promise<void> {
    const { context, claims, indexes, outcomes, now, policy } = batch;
    const workerOf = (at: number): string => claims[at]?.workerId ?? '';
    const workers = await context.findClaiming([...new Set(indexes.map(workerOf))], manager);
    const admitted = indexes.filter((at) => {
      const worker = workers.get(workerOf(at));
      return worker !== undefined && claims[at]?.admits?.(worker) !== false;
    });
    if (admitted.length === 0) return;
    const { isFifo = false } = context.strategy;
    // A strategy that considers what a worker holds sees each worker once per group.
    const seen = new Set<string>();
    const served = isFifo
      ? admitted
      : admitted.filter((at) => !seen.has(workerOf(at)) && seen.add(workerOf(at)));
    for (const at of admitted) outcomes[at] = CONTENDED;
    for (const at of served) outcomes[at] = EMPTY;
    const held = isFifo ? new Map<string, HeldRun[]>() : await this.#lockHeld(manager, [...seen]);
    const limit = Math.max(1, Math.floor(MAX_RUNS_PER_GROUP / served.length));
    const claimants = served.flatMap((at): Claimant[] => {
      const worker = workers.get(workerOf(at));
      if (!worker) return [];
      const max = claims[at]?.max;
      return [
        {
          ...worker,
          held: held.get(worker.id) ?? [],
          ...(max === undefined ? {} : { max: Math.min(max, limit) }),
        },
      ];
    });
    const selection = await this.selector.select(manager, context, claimants, now);
    const assigned = await this.#assign(manager, selection.candidates, now, policy);
    for (const [i, at] of served.entries()) {
      const runs = assigned.get(i);
      if (runs) outcomes[at] = { kind: 'served', runs };
      else if (selection.isContended) outcomes[at] = CONTENDED;
    }
    const empty = served.filter((at) => outcomes[at] === EMPTY);
    if (!isFifo || empty.length === 0) return;
    if (await this.selector.hasNoOthers(manager)) return;
    for (const at of empty) outcomes[at] = CONTENDED;
  }

  /** The runs that workers hold, by worker id. Locks the workers: other processes assign nothing to them meanwhile. */
  async #lockHeld(
    manager: EntityManager,
    workerIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    await this.queue.lockWorkers(manager, workerIds);
    return this.held.findHeld(manager, workerIds);
  }

  /** Assigns the candidates. @returns the runs of each claim, by its index among the claimants */
  async #assign(
    manager: EntityManager,
    candidates: readonly Candidate[],
    now: Date,
    policy: Policy,
  ): Promise<ReadonlyMap<number, readonly ClaimedRun[]>> {
    const decided = candidates.flatMap(({ claim, worker, run, gpuId }) => {
      const outcome = decide(run, { type: 'assign', workerId: worker.id, gpuId }, now, policy);
      return isRejected(outcome) ? [] : [{ claim, run: outcome.run }];
    });
    const assigned = new Map<number, ClaimedRun[]>();
    if (decided.length === 0) return assigned;
    const runs = decided.map(({ run }) => run);
    const [, written] = await Promise.all([
      this.queue.noteTaken(manager, runs),
      this.runs.assign(manager, runs),
    ]);
    const rowOf = new Map(written.map((row) => [row.id, row]));
    for (const { claim, run } of decided) {
      const row = rowOf.get(run.id);
      if (!row) continue;
      const runsOfClaim = assigned.get(claim) ?? [];
      runsOfClaim.push({ ...row, run });
      assigned.set(claim, runsOfClaim);
    }
    return assigned;
  }
}
