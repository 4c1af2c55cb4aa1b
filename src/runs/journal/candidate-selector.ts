import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { Run } from '../machine/run.js';
import type { Lane } from '../queue/lane.js';
import type { LockedHead } from '../queue/queue-head.js';
import { QueueRepository } from '../queue/queue.repository.js';
import { RestrictedRuns, type RestrictedRun } from '../queue/restricted-runs.js';
import type {
  Assignment,
  Claimant,
  ClaimContext,
  HeldRun,
  LockedRun,
  QueuedRun,
} from '../scheduling-strategy.js';
import { withinBytes } from './claim-bytes.js';
import { chooseEligible } from './eligibility.js';
import { ConcurrencyLimits } from './concurrency-limits.js';

/** How often a strategy chooses again after other transactions took runs that it had chosen. */
const ROUNDS = 3;

export interface Candidate<R extends Run = LockedRun> {
  readonly claim: number;
  readonly worker: Claimant;
  readonly run: R;
  readonly gpuId: number | null;
}

export interface Selection {
  /** Their runs are locked. */
  readonly candidates: readonly Candidate[];
  /** True when there might be more candidates: other transactions hold them, or they exceed the bytes of the answers. */
  readonly isContended: boolean;
}

/** Runs that not every claim gets. */
interface Restricted {
  readonly runs: readonly RestrictedRun[];
  /** By the id of the run. */
  readonly lanes: ReadonlyMap<string, Lane>;
}

/** Lets a strategy choose runs of the queue for claimants, and locks the chosen runs. Their bytes are bounded. */
@Injectable()
export class CandidateSelector {
  constructor(
    private readonly queue: QueueRepository,
    private readonly restricted: RestrictedRuns,
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxAnswerBytes'>,
  ) {}

  /** For a FIFO strategy: the head of the queue is read and locked in one statement. */
  async takeHead(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    const { strategy } = context;
    const restricted = await this.#listRestricted(manager, context, claimants, now, new Set());
    const head = await this.queue.lockHead(manager, strategy.candidatesFor(claimants, now).limit);
    return this.#bounded(await this.#choose(manager, context, claimants, now, { head, restricted }));
  }

  /** For all other strategies: they choose from unlocked runs, and again if others took some of these. */
  async select(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    return this.#bounded(await this.#choose(manager, context, claimants, now));
  }

  /** Leaves the other chosen runs in the queue. */
  #bounded({ candidates, isContended }: Selection): Selection {
    const within = withinBytes(candidates, this.settings.maxAnswerBytes);
    return { candidates: within, isContended: isContended || within.length < candidates.length };
  }

  /** @param first for a FIFO strategy: the locked head, with the runs beside it for the first round */
  async #choose(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
    first?: { readonly head: readonly LockedHead[]; readonly restricted: Restricted },
  ): Promise<Selection> {
    const { strategy } = context;
    const ids = claimants.map(({ id }) => id);
    const held = new Map(first?.head.map((run) => [run.id, run]));
    const limits = new ConcurrencyLimits();
    const candidates: Candidate[] = [];
    const tried = new Set<string>();
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // Runs that others hold may return to the queue, which is not announced.
      const isContended = candidates.length < tried.size;
      const restricted =
        round === 1 && first
          ? first.restricted
          : await this.#listRestricted(manager, context, present, now, tried);
      const query = strategy.candidatesFor(present, now);
      const listed = first?.head ?? (await this.queue.list(manager, query, ids, [...tried]));
      const queued = joined(listed, restricted.runs, tried);
      if (queued.length === 0) return { candidates, isContended };
      limits.addCounts(restricted.runs);
      const reachable = first ? new Set<string>() : await reachableWorkers(manager, context, queued);
      const scene = { lanes: restricted.lanes, limits };
      const choice = chooseEligible(strategy, present, queued, scene, { now, reachable });
      if (!first && choice.reservations?.length) {
        await this.queue.reserve(manager, choice.reservations, queued);
      }
      if (!first && choice.passedOver?.length) {
        const passedOver = new Set(choice.passedOver);
        const runs = queued.filter(({ id }) => passedOver.has(id));
        await this.queue.notePassedOver(manager, runs, now);
      }
      const wanted = matched(choice.assignments, present, queued);
      if (wanted.length === 0) return { candidates, isContended };
      const locked = await this.#lock(manager, wanted, held, limits);
      candidates.push(...locked);
      for (const { run } of wanted) tried.add(run.id);
      if (locked.length === wanted.length) return { candidates, isContended };
      if (round === ROUNDS) return { candidates, isContended: true };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          locked.filter(({ claim }) => claim === i),
          first !== undefined,
        ),
      );
    }
  }

  async #listRestricted(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
    tried: ReadonlySet<string>,
  ): Promise<Restricted> {
    const query = context.strategy.candidatesFor(claimants, now);
    const options = { except: [...tried], mayForget: this.queue.mayForget(manager) };
    const { runs, lanes } = await this.restricted.list(manager, claimants, query, options);
    const laneOfRun = runs.flatMap(({ id, lane }): [string, Lane][] => {
      const found = lanes.get(lane);
      return found ? [[id, found]] : [];
    });
    return { runs, lanes: new Map(laneOfRun) };
  }

  /**
   * The candidates that could be locked, with their runs as they are now: their keys first, which must be below their limits.
   * @param held runs that are locked already
   */
  async #lock(
    manager: EntityManager,
    wanted: readonly Candidate<Run>[],
    held: ReadonlyMap<string, LockedRun>,
    limits: ConcurrencyLimits,
  ): Promise<Candidate[]> {
    const keys = new Set(wanted.flatMap(({ run: { concurrencyKey: key } }) => key ?? []));
    const unlocked = [...keys].filter((key) => !limits.isLocked(key));
    if (unlocked.length > 0) limits.setLockedCounts(await this.queue.restricted.keys.lock(manager, unlocked));
    const open = wanted.filter(
      ({ run }) =>
        run.concurrencyKey === null || (limits.isLocked(run.concurrencyKey) && limits.tryAcquire(run)),
    );
    const runs = open.flatMap(({ run }) => (held.has(run.id) ? [] : [run]));
    const locked = new Map(held);
    for (const run of await this.queue.lockAll(manager, runs)) locked.set(run.id, run);
    return open.flatMap((candidate): Candidate[] => {
      const run = locked.get(candidate.run.id);
      if (!run) limits.release(candidate.run);
      return run ? [{ ...candidate, run }] : [];
    });
  }
}

/** Both lists in queue order, without the ids in `except`. */
function joined(
  listed: readonly QueuedRun[],
  restricted: readonly QueuedRun[],
  except: ReadonlySet<string>,
): readonly QueuedRun[] {
  if (restricted.length === 0 && except.size === 0) return listed;
  const byId = new Map([...listed, ...restricted].map((run) => [run.id, run]));
  return [...byId.values()].filter(({ id }) => !except.has(id)).toSorted(byQueueOrder);
}

function byQueueOrder(a: Run, b: Run): number {
  const age = a.createdAt.getTime() - b.createdAt.getTime();
  return b.priority - a.priority || age || (a.id < b.id ? -1 : 1);
}

/** Ids of the reserved workers of these runs that may claim now. */
async function reachableWorkers(
  manager: EntityManager,
  context: ClaimContext,
  queued: readonly QueuedRun[],
): Promise<ReadonlySet<string>> {
  const ids = new Set(queued.flatMap(({ reservedFor }) => reservedFor ?? []));
  return new Set(ids.size === 0 ? [] : (await context.findClaiming([...ids], manager)).keys());
}

/** The valid assignments of a strategy: each queued run once, and no more than `max` runs per claimant. */
function matched<R extends Run>(
  assignments: readonly Assignment[],
  claimants: readonly Claimant[],
  queued: readonly R[],
): Candidate<R>[] {
  const free = new Map(queued.map((run) => [run.id, run]));
  const counts = claimants.map(() => 0);
  return assignments.flatMap(({ claim, runId, gpuId }) => {
    const worker = claimants[claim];
    const run = free.get(runId);
    const count = counts[claim] ?? 0;
    if (!worker || !run || count >= (worker.max ?? Infinity)) return [];
    free.delete(runId);
    counts[claim] = count + 1;
    return [{ claim, worker, run, gpuId }];
  });
}

/** @param isFifo the strategy knows no limit but `max`, and gives the claimant no more in a further round */
function withRuns(claimant: Claimant, candidates: readonly Candidate[], isFifo: boolean): Claimant {
  const { held, max = isFifo && candidates.length > 0 ? candidates.length : undefined } = claimant;
  const added = candidates.map(({ run, worker, gpuId }): HeldRun => {
    const { id: runId, cpu, ramMb, vramMb } = run;
    return { runId, workerId: worker.id, cpu, ramMb, vramMb, gpuId };
  });
  return {
    ...claimant,
    held: [...held, ...added],
    ...(max === undefined ? {} : { max: max - added.length }),
  };
}
