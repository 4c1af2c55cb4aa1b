import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../config/settings.js';
import { covers } from '../auth/access.js';
import {
  CONTENDED,
  CONTENDED_REPLAY,
  EMPTY,
  QUEUE_EMPTY,
  REFUSED,
  type Claim,
  type ClaimedRun,
  type ClaimOutcome,
} from '../runs/journal/command.js';
import { GroupTables, type ClaimTerms, type GroupClaims } from '../runs/journal/commit-group.js';
import { decide } from '../runs/machine/decide.js';
import { isRejected, type Policy } from '../runs/machine/run-command.js';
import type { ClaimableRun } from '../runs/queue/lane.js';
import type { Claimant, ClaimingWorker, HeldRun, SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { HeldRunRepository } from '../runs/storage/held-run.repository.js';
import type { HeldByClaim } from '../runs/storage/run.repository.js';
import { bytesOfGroup } from '../runs/storage/run-views.js';
import { findClaiming, WorkerPool } from '../workers/pool/worker-pool.js';
import { SCHEDULER } from './strategies/scheduler.js';
import { CandidateSelector, type Candidate } from './candidate-selector.js';

/** Maximum number of runs for all claims of a group that ask for several: bounds the size of the commit. */
const MAX_RUNS_PER_GROUP = 2000;

/** A claim that no earlier one with its key answers. */
interface OpenClaim {
  /** Its index in the group. */
  readonly at: number;
  readonly claim: Claim;
}

/** Serves the claims of a group, in its transaction: answers repeated ones, and assigns pending runs to the others. */
@Injectable()
export class ClaimAllocator implements GroupClaims {
  constructor(
    private readonly tables: GroupTables,
    private readonly held: HeldRunRepository,
    private readonly selector: CandidateSelector,
    @Inject(WorkerPool) private readonly pool: Pick<WorkerPool, 'findAll'>,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxAnswerBytes'>,
  ) {}

  /**
   * Serves claims, in a fixed number of statements.
   * @returns one outcome per claim, in order, and runs that became claimable because the claims changed their keys
   */
  async serve(
    manager: EntityManager,
    claims: readonly Claim[],
    terms: ClaimTerms,
  ): Promise<{ readonly outcomes: ClaimOutcome[]; readonly admitted: readonly ClaimableRun[] }> {
    const outcomes = claims.map(() => REFUSED);
    const open = await this.#answerRepeated(manager, claims, outcomes);
    const workers = await this.#serveOpen(manager, open, outcomes, terms);
    const taken = outcomes.flatMap(({ kind, runs }) => (kind === 'served' ? runs.map(({ run }) => run) : []));
    const admitted = await this.tables.queue.admitAfter(manager, taken);
    await this.#storeKeys(manager, claims, outcomes);
    await this.#recheckKeys(manager, claims, outcomes);
    const withWorkers = outcomes.map((outcome, at) => {
      const worker = workers.get(claims[at]?.workerId ?? '');
      return worker ? { ...outcome, worker } : outcome;
    });
    return { outcomes: withWorkers, admitted };
  }

  /** Writes the outcomes of claims whose key was served before. @returns the claims still to be served */
  async #answerRepeated(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<OpenClaim[]> {
    const claimed = await this.#findClaimed(
      manager,
      claims.map(({ idempotency }) => idempotency?.scope),
    );
    const held = await this.#findHeldBy(manager, claims, [...claimed.values()]);
    const seen = new Set<string>();
    return claims.flatMap((claim, at) => {
      const { idempotency, workerId, signal } = claim;
      const ids = idempotency && claimed.get(idempotency.scope);
      if (ids) {
        const runs = ids.flatMap((id) => held.get(id) ?? []).filter(({ run }) => run.workerId === workerId);
        // Those that are not read exceed the bytes of one commit.
        outcomes[at] = runs.every(({ isRead }) => isRead) ? { kind: 'replayed', runs } : CONTENDED_REPLAY;
        return [];
      }
      if (idempotency && seen.has(idempotency.scope)) {
        // The first claim with this key is in the same group: the next try finds its runs.
        outcomes[at] = CONTENDED;
        return [];
      }
      if (idempotency) seen.add(idempotency.scope);
      return signal.aborted ? [] : [{ at, claim }];
    });
  }

  /** Writes the outcomes of open claims. @returns their workers as they are now, by id; those that may not claim are left out */
  async #serveOpen(
    manager: EntityManager,
    open: readonly OpenClaim[],
    outcomes: ClaimOutcome[],
    { now, policy, isRetry }: ClaimTerms,
  ): Promise<ReadonlyMap<string, ClaimingWorker>> {
    if (open.length === 0) return new Map();
    const ids = new Set(open.map(({ claim }) => claim.workerId));
    const workers = await findClaiming(this.pool, [...ids], manager);
    const accepted = open.flatMap(({ at, claim: { workerId, max, caller } }) => {
      const worker = workers.get(workerId);
      return worker && (caller === undefined || covers(caller, worker)) ? [{ at, max, worker }] : [];
    });
    if (accepted.length === 0) return workers;
    if (this.tables.queue.pauses.holdAll) {
      for (const { at } of accepted) outcomes[at] = EMPTY;
      return workers;
    }
    const { isFifo = false } = this.strategy;
    // A strategy that considers what a worker holds sees each worker once per group.
    const seen = new Set<string>();
    const served = accepted.filter(({ worker: { id } }) => isFifo || (!seen.has(id) && seen.add(id)));
    for (const { at } of accepted) outcomes[at] = CONTENDED;
    for (const { at } of served) outcomes[at] = EMPTY;
    const held = isFifo ? new Map<string, HeldRun[]>() : await this.#lockHeld(manager, [...seen]);
    const limit = Math.max(1, Math.floor(MAX_RUNS_PER_GROUP / served.length));
    const claimants = served.map(({ worker, max }): Claimant => ({
      ...worker,
      held: held.get(worker.id) ?? [],
      max: max === undefined ? undefined : Math.min(max, limit),
    }));
    const selection = await this.selector.select(manager, claimants, { now, isRetry });
    const { candidates, isContended, hasSeenRuns } = selection;
    const within = withinBytes(candidates, this.settings.maxAnswerBytes);
    const assigned = await this.#assign(manager, within, now, policy);
    for (const [i, { at }] of served.entries()) {
      const runs = assigned.get(i);
      if (runs) outcomes[at] = { kind: 'served', runs };
      else if (isContended || within.length < candidates.length) outcomes[at] = CONTENDED;
    }
    const empty = served.filter(({ at }) => outcomes[at] === EMPTY);
    // A strategy that has seen runs knows already that the queue has some.
    if (empty.length === 0 || (!isFifo && hasSeenRuns)) return workers;
    const rest = await this.selector.lookAtRest(manager);
    for (const { at } of empty) {
      if (rest === 'none') outcomes[at] = QUEUE_EMPTY;
      else if (isFifo && rest === 'unseen') outcomes[at] = CONTENDED;
    }
    return workers;
  }

  /** The runs that workers hold, by worker id. Locks the workers: other processes assign nothing to them meanwhile. */
  async #lockHeld(
    manager: EntityManager,
    workerIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    await this.tables.queue.lockWorkers(manager, workerIds);
    return this.held.findHeld(manager, workerIds);
  }

  /** Assigns the candidates. @returns the runs of each claim, by its index among the claimants */
  async #assign(
    manager: EntityManager,
    candidates: readonly Candidate[],
    now: Date,
    policy: Policy,
  ): Promise<ReadonlyMap<number, readonly ClaimedRun[]>> {
    const decided = candidates.flatMap(({ claim, worker, run, gpuId, gpuIds }) => {
      const outcome = decide(run, { type: 'assign', workerId: worker.id, gpuId, gpuIds }, now, policy);
      return isRejected(outcome) ? [] : [{ claim, run: outcome.run }];
    });
    const assigned = new Map<number, ClaimedRun[]>();
    if (decided.length === 0) return assigned;
    const runs = decided.map(({ run }) => run);
    const [, written] = await Promise.all([
      this.tables.queue.noteTaken(manager, runs),
      this.tables.runs.assign(manager, runs, new Map(candidates.map(({ run }) => [run.id, run]))),
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

  /** Stores which runs claims with a key got. */
  async #storeKeys(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: readonly ClaimOutcome[],
  ): Promise<void> {
    const keys = claims.flatMap(({ idempotency }, at) => {
      const outcome = outcomes[at];
      if (!idempotency || outcome?.kind !== 'served') return [];
      return [{ ...idempotency, runIds: outcome.runs.map(({ run }) => run.id) }];
    });
    if (keys.length > 0) await this.tables.idempotency.insertClaims(manager, keys);
  }

  /** Marks as contended the empty claims whose key another process served meanwhile: the next try finds its runs. */
  async #recheckKeys(
    manager: EntityManager,
    claims: readonly Claim[],
    outcomes: ClaimOutcome[],
  ): Promise<void> {
    const empty = claims.map(({ idempotency }, at) =>
      outcomes[at]?.kind === 'empty' ? idempotency?.scope : undefined,
    );
    const claimed = await this.#findClaimed(manager, empty);
    for (const [at, scope] of empty.entries()) {
      if (scope !== undefined && claimed.has(scope)) outcomes[at] = CONTENDED_REPLAY;
    }
  }

  /** Ids of the runs that claims with these keys got, by scope. */
  async #findClaimed(
    manager: EntityManager,
    keys: readonly (string | undefined)[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    const scopes = keys.filter((scope) => scope !== undefined);
    return scopes.length === 0 ? new Map() : this.tables.idempotency.findClaimed(manager, scopes);
  }

  /** Those of the runs that workers of these claims still hold, by id. @param claimed the runs of each earlier claim */
  async #findHeldBy(
    manager: EntityManager,
    claims: readonly Claim[],
    claimed: readonly (readonly string[])[],
  ): Promise<ReadonlyMap<string, ClaimedRun & Pick<HeldByClaim, 'isRead'>>> {
    if (claimed.length === 0) return new Map();
    const workerIds = claims.map(({ workerId }) => workerId);
    const maxBytes = bytesOfGroup(this.settings.maxAnswerBytes);
    const held = await this.tables.runs.listHeldBy(manager, claimed, workerIds, maxBytes);
    return new Map(held.map((run) => [run.id, { ...run, run }]));
  }
}

/**
 * The candidates whose answers are within the limits, in the order of each claim. An answer may be larger than
 * `maxAnswerBytes` if it has one run only. Each claim gets its first run before one gets a second, so that only a group
 * whose first runs exceed its bytes has claims that get none.
 */
function withinBytes(candidates: readonly Candidate[], maxAnswerBytes: number): Candidate[] {
  const seen = new Set<number>();
  const first = candidates.filter(({ claim }) => !seen.has(claim) && seen.add(claim));
  const firstOnes = new Set(first);
  const ordered = [...first, ...candidates.filter((candidate) => !firstOnes.has(candidate))];
  const answers = new Map<number, number>();
  const full = new Set<number>();
  let ofGroup = 0;
  return ordered.filter(({ claim, run: { bytes } }) => {
    const answer = answers.get(claim) ?? 0;
    const isWithin =
      (answer === 0 || answer + bytes <= maxAnswerBytes) &&
      (ofGroup === 0 || ofGroup + bytes <= bytesOfGroup(maxAnswerBytes));
    // A later, smaller run must not overtake one that the claim leaves in the queue.
    if (!isWithin) full.add(claim);
    if (full.has(claim)) return false;
    answers.set(claim, answer + bytes);
    ofGroup += bytes;
    return true;
  });
}
