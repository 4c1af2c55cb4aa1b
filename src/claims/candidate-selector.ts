import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Run } from '../runs/machine/run.js';
import { byQueueOrder, isPlain, offerOf, serves, type Lane } from '../runs/queue/lane.js';
import { Lanes } from '../runs/queue/lanes.js';
import type { PendingRun, QueueHead } from '../runs/queue/plain-lane.js';
import { QueueRepository } from '../runs/queue/queue.repository.js';
import {
  shapeOf,
  type Assignment,
  type Choice,
  type ChoiceContext,
  type Claimant,
  type HeldRun,
  type QueuedRun,
  type Reservation,
  type SchedulingStrategy,
} from '../runs/scheduling-strategy.js';
import { findClaiming, WorkerPool } from '../workers/pool/worker-pool.js';
import { SCHEDULER } from './strategies/scheduler.js';

/** How often a strategy chooses again after other transactions took runs that it had chosen. */
const ROUNDS = 3;

/** Runs beyond its limit that a claim reads after it found paused ones. */
const BEHIND_PAUSED = 500;

export interface Candidate<R extends Run = PendingRun> extends Omit<Assignment, 'runId'> {
  readonly worker: Claimant;
  readonly run: R;
}

export interface Selection {
  /** Their runs are locked if others may take them. */
  readonly candidates: readonly Candidate[];
  /** True when there might be more candidates: other transactions hold them, or they are behind paused runs. */
  readonly isContended: boolean;
  /** Whether the strategy saw any run, candidate or not. */
  readonly hasSeenRuns: boolean;
}

/** Numbers of runs in execution, by concurrency key. */
type KeyCounts = ReadonlyMap<string, number>;

/** Lets a strategy choose runs of the queue for claimants, and locks the chosen runs if other processes may take them. */
@Injectable()
export class CandidateSelector {
  constructor(
    private readonly queue: QueueRepository,
    private readonly lanes: Lanes,
    @Inject(WorkerPool) private readonly pool: Pick<WorkerPool, 'findAll'>,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /**
   * The runs for these claimants; leaves the other ones in the queue. For a FIFO strategy, the head of the plain lane is read
   * and locked in one statement; runs of other lanes, and all runs for other strategies, are read, chosen and then locked, and
   * chosen again if others took some of them.
   * @param isRetry whether another transaction wrote a run of the group before: then it locks in any case
   */
  async select(
    manager: EntityManager,
    claimants: readonly Claimant[],
    { now, isRetry }: { readonly now: Date; readonly isRetry: boolean },
  ): Promise<Selection> {
    const { strategy } = this;
    const isLocked = this.queue.claimsLock(isRetry);
    const { isFifo = false } = strategy;
    const { limit } = strategy.candidatesFor(claimants, now);
    const head = isFifo ? await this.#readHead(manager, limit, isLocked) : [];
    let hasPassedPaused = false;
    const readHead = new Map(head.map((run) => [run.id, run]));
    const counts = new Map<string, number>();
    const lockedKeys = new Set<string>();
    const candidates: Candidate[] = [];
    const tried = new Set<string>();
    let hasSeenRuns = false;
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // Runs that others hold may return to the queue, which is not announced.
      const query = strategy.candidatesFor(present, now);
      const mayForget = this.queue.mayForget(manager);
      const options = { except: [...tried], withPlain: !isFifo, mayForget };
      const { runs, lanes } = await this.lanes.list(manager, present, query, options);
      const listed = await this.queue.leavePaused(manager, runs);
      hasPassedPaused ||= listed.length < runs.length;
      const isContended = candidates.length < tried.size || hasPassedPaused;
      const queued = joined(head, listed, tried);
      hasSeenRuns ||= queued.length > 0;
      if (queued.length === 0) return { candidates, isContended, hasSeenRuns };
      for (const { concurrencyKey: key, executing } of listed) {
        if (key !== null && executing !== null && !lockedKeys.has(key)) counts.set(key, executing);
      }
      const reachable = isFifo ? new Set<string>() : await this.#findReachable(manager, queued);
      const choice = chooseEligible(strategy, present, queued, { lanes, counts }, { now, reachable });
      if (!isFifo) await this.#note(manager, choice, queued, now);
      const wanted = matched(choice.assignments, present, queued);
      if (wanted.length === 0) return { candidates, isContended, hasSeenRuns };
      const taken = await this.#take(manager, wanted, { readHead, counts, lockedKeys, isLocked });
      candidates.push(...taken);
      for (const { run } of wanted) tried.add(run.id);
      if (taken.length === wanted.length) return { candidates, isContended, hasSeenRuns };
      if (round === ROUNDS) return { candidates, isContended: true, hasSeenRuns };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          taken.filter(({ claim }) => claim === i),
          isFifo,
        ),
      );
    }
  }

  /**
   * After a claim got nothing, what the queue has: `none`: no run; `unseen`: runs of the plain lane, which others may have locked, or
   * of a lane that this process did not know; `other`: runs of other lanes only.
   */
  async lookAtRest(manager: EntityManager): Promise<'none' | 'unseen' | 'other'> {
    const [isPlainEmpty, hasOtherLanes] = await Promise.all([
      this.queue.isPlainEmpty(manager),
      this.lanes.discover(manager),
    ]);
    if (!isPlainEmpty || hasOtherLanes) return 'unseen';
    if (this.queue.mayForget(manager)) await this.lanes.forgetEmpty(manager);
    return this.lanes.areEmpty ? 'none' : 'other';
  }

  /** The head of the plain lane, without paused runs. */
  async #readHead(manager: EntityManager, limit: number, isLocked: boolean): Promise<readonly QueueHead[]> {
    const { queue } = this;
    const mayForget = queue.mayForget(manager);
    const head = await queue.readFirst(manager, limit, isLocked);
    const open = await queue.leavePaused(manager, head);
    if (open.length === head.length) return head;
    if (mayForget) await queue.passPaused(manager);
    return queue.leavePaused(manager, await queue.readFirst(manager, limit + BEHIND_PAUSED, isLocked));
  }

  /** Ids of the reserved workers of these runs that may claim now. */
  async #findReachable(manager: EntityManager, queued: readonly QueuedRun[]): Promise<ReadonlySet<string>> {
    const ids = new Set(queued.flatMap(({ reservedFor }) => reservedFor ?? []));
    return new Set(ids.size === 0 ? [] : (await findClaiming(this.pool, [...ids], manager)).keys());
  }

  /** Writes the strategy's notes on candidates that it did not assign. */
  async #note(
    manager: EntityManager,
    { reservations = [], passedOver = [] }: Choice,
    queued: readonly QueuedRun[],
    now: Date,
  ): Promise<void> {
    const known = new Set(queued.map(({ id }) => id));
    const reserved = reservations.filter(({ runId }) => known.has(runId));
    const passed = passedOver.filter((id) => known.has(id));
    if (reserved.length > 0) await this.queue.reserve(manager, reserved);
    if (passed.length > 0) await this.queue.notePassedOver(manager, passed, now);
  }

  /**
   * The candidates that can be assigned, with their runs as they are now: their keys are locked first, and must be below their
   * limits.
   * @param known `readHead`: runs that were read to be assigned; `counts`: of the keys, exact for locked ones
   */
  async #take(
    manager: EntityManager,
    wanted: readonly Candidate<Run>[],
    known: {
      readonly readHead: ReadonlyMap<string, PendingRun>;
      readonly counts: Map<string, number>;
      readonly lockedKeys: Set<string>;
      readonly isLocked: boolean;
    },
  ): Promise<Candidate[]> {
    const { readHead, counts, lockedKeys, isLocked } = known;
    const keys = new Set(wanted.flatMap(({ run: { concurrencyKey: key } }) => key ?? []));
    const unlocked = [...keys].filter((key) => !lockedKeys.has(key));
    if (unlocked.length > 0) {
      for (const [key, executing] of await this.queue.keys.lock(manager, unlocked)) {
        counts.set(key, executing);
        lockedKeys.add(key);
      }
    }
    const open = wanted.filter(
      ({ run }) => run.concurrencyKey === null || (lockedKeys.has(run.concurrencyKey) && take(run, counts)),
    );
    // To wait for a run while one holds a key might be a deadlock, so runs beside keys are locked, which skips held ones.
    const locks = isLocked || keys.size > 0;
    const pending = new Map(locks && !isLocked ? [] : readHead);
    const runs = open.flatMap(({ run }) => (pending.has(run.id) ? [] : [run]));
    for (const run of await this.queue.readAll(manager, runs, locks)) pending.set(run.id, run);
    return open.flatMap((candidate): Candidate[] => {
      const run = pending.get(candidate.run.id);
      if (!run) add(candidate.run, -1, counts);
      return run ? [{ ...candidate, run }] : [];
    });
  }
}

/**
 * The strategy's choice among the runs that each claimant may get. Runs outside the plain lane make it choose per claimant;
 * it chooses again without the runs that a full key leaves out.
 * @param given the lanes of the runs, by id (absent: the plain lane), and the counts of their keys
 */
function chooseEligible(
  strategy: SchedulingStrategy,
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
  given: { readonly lanes: ReadonlyMap<string, Lane>; readonly counts: KeyCounts },
  context: ChoiceContext,
): Choice {
  if (candidates.every(isPlain)) return strategy.choose(claimants, candidates, context);
  const assignments: Assignment[] = [];
  const reservations = new Map<string, Reservation>();
  const passedOver = new Set<string>();
  const taken = new Set<string>();
  let { counts } = given;
  for (const [claim, claimant] of claimants.entries()) {
    const offer = offerOf(claimant);
    const open = candidates.filter((run) => {
      const lane = given.lanes.get(run.id);
      return !taken.has(run.id) && isBelowLimit(run, counts) && (lane === undefined || serves(offer, lane));
    });
    const { choice, after } = chooseWithin(strategy, claimant, open, counts, context);
    counts = after;
    for (const { runId, gpuId, gpuIds } of choice.assignments) {
      assignments.push({ claim, runId, gpuId, gpuIds });
      taken.add(runId);
    }
    for (const reservation of choice.reservations ?? []) reservations.set(reservation.runId, reservation);
    for (const runId of choice.passedOver ?? []) passedOver.add(runId);
  }
  return {
    assignments,
    reservations: [...reservations.values()].filter(({ runId }) => !taken.has(runId)),
    passedOver: [...passedOver].filter((runId) => !taken.has(runId)),
  };
}

/** The choice for one claimant, which takes no more runs of a key than its limit allows, and the counts after it. */
function chooseWithin(
  strategy: SchedulingStrategy,
  claimant: Claimant,
  candidates: readonly QueuedRun[],
  counts: KeyCounts,
  context: ChoiceContext,
): { readonly choice: Choice; readonly after: KeyCounts } {
  const byId = new Map(candidates.map((run) => [run.id, run]));
  for (let open = candidates; ;) {
    const choice = strategy.choose([claimant], open, context);
    const after = new Map(counts);
    const full = new Set<string>();
    const chosen = new Map<string, Assignment>();
    for (const assignment of choice.assignments) {
      const run = byId.get(assignment.runId);
      if (!run || assignment.claim !== 0 || chosen.has(run.id)) continue;
      if (take(run, after)) chosen.set(run.id, assignment);
      else if (run.concurrencyKey !== null) full.add(run.concurrencyKey);
    }
    if (full.size === 0) return { choice: { ...choice, assignments: [...chosen.values()] }, after };
    // Each round leaves out runs of one more key at least.
    open = open.filter(({ id, concurrencyKey: key }) => key === null || !full.has(key) || chosen.has(id));
  }
}

function isBelowLimit({ concurrencyKey: key, concurrencyLimit: limit }: Run, counts: KeyCounts): boolean {
  return key === null || limit === null || (counts.get(key) ?? 0) < limit;
}

/** Counts the run as in execution. @returns false if its key is at the limit */
function take(run: Run, counts: Map<string, number>): boolean {
  const isOpen = isBelowLimit(run, counts);
  if (isOpen) add(run, 1, counts);
  return isOpen;
}

function add({ concurrencyKey: key }: Run, runs: number, counts: Map<string, number>): void {
  if (key !== null) counts.set(key, (counts.get(key) ?? 0) + runs);
}

/** Both lists in queue order, without the ids in `except`. */
function joined(
  head: readonly QueuedRun[],
  listed: readonly QueuedRun[],
  except: ReadonlySet<string>,
): readonly QueuedRun[] {
  if (head.length === 0) return listed;
  const open = head.filter(({ id }) => !except.has(id));
  return listed.length === 0 ? open : [...open, ...listed].toSorted(byQueueOrder);
}

/** The valid assignments of a strategy: each queued run once, and no more than `max` runs per claimant. */
function matched<R extends Run>(
  assignments: readonly Assignment[],
  claimants: readonly Claimant[],
  queued: readonly R[],
): Candidate<R>[] {
  const free = new Map(queued.map((run) => [run.id, run]));
  const counts = claimants.map(() => 0);
  return assignments.flatMap(({ claim, runId, gpuId, gpuIds }) => {
    const worker = claimants[claim];
    const run = free.get(runId);
    const count = counts[claim] ?? 0;
    if (!worker || !run || count >= (worker.max ?? Infinity)) return [];
    free.delete(runId);
    counts[claim] = count + 1;
    return [{ claim, worker, run, gpuId, gpuIds }];
  });
}

/** @param isFifo the strategy knows no limit but `max`, and gives the claimant no more in a further round */
function withRuns(claimant: Claimant, candidates: readonly Candidate[], isFifo: boolean): Claimant {
  const { held, max = isFifo && candidates.length > 0 ? candidates.length : undefined } = claimant;
  const added = candidates.map(({ run, worker, gpuId, gpuIds = gpuId === null ? [] : [gpuId] }): HeldRun => {
    return { runId: run.id, workerId: worker.id, ...shapeOf(run), gpuIds };
  });
  return {
    ...claimant,
    held: [...held, ...added],
    ...(max === undefined ? {} : { max: max - added.length }),
  };
}
