import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { Run } from '../../runs/machine/run.js';
import { LaneHeads, type Candidates } from '../../runs/queue/lane-heads.js';
import { byQueueOrder, type Lane } from '../../runs/queue/lane.js';
import { Lanes } from '../../runs/queue/lanes.js';
import { QueueRepository } from '../../runs/queue/queue.repository.js';
import type {
  Assignment,
  Choice,
  Claimant,
  ClaimContext,
  HeldRun,
  LockedRun,
  QueuedRun,
} from '../../runs/scheduling-strategy.js';
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

/** Lets a strategy choose runs of the queue for claimants, and locks the chosen runs. Their bytes are bounded. */
@Injectable()
export class CandidateSelector {
  constructor(
    private readonly queue: QueueRepository,
    private readonly heads: LaneHeads,
    private readonly lanes: Lanes,
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxAnswerBytes'>,
  ) {}

  /**
   * The runs for these claimants; leaves the other ones in the queue. For a FIFO strategy, the head of the plain lane is read
   * and locked in one statement; runs of other lanes, and all runs for other strategies, are read, chosen and then locked, and
   * chosen again if others took some of them.
   */
  async select(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    const { candidates, isContended } = await this.#choose(manager, context, claimants, now);
    const within = withinBytes(candidates, this.settings.maxAnswerBytes);
    return { candidates: within, isContended: isContended || within.length < candidates.length };
  }

  /**
   * After a FIFO strategy chose nothing: whether the queue has no other runs. Rows that other transactions have locked make the
   * head of the plain lane look empty, and the notification of a new lane may not have arrived.
   */
  async hasNoOthers(manager: EntityManager): Promise<boolean> {
    const [isPlainEmpty, hasOtherLanes] = await Promise.all([
      this.queue.isPlainEmpty(manager),
      this.lanes.discover(manager),
    ]);
    return isPlainEmpty && !hasOtherLanes;
  }

  async #choose(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    const { strategy } = context;
    const { isFifo = false } = strategy;
    const mayForget = this.queue.mayForget(manager);
    const { limit } = strategy.candidatesFor(claimants, now);
    const head = isFifo ? await this.queue.lockFirst(manager, limit) : [];
    const held = new Map(head.map((run) => [run.id, run]));
    const limits = new ConcurrencyLimits();
    const candidates: Candidate[] = [];
    const tried = new Set<string>();
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // Runs that others hold may return to the queue, which is not announced.
      const isContended = candidates.length < tried.size;
      const query = strategy.candidatesFor(present, now);
      const options = { except: [...tried], withPlain: !isFifo, mayForget };
      const listed = await this.heads.list(manager, present, query, options);
      const queued = joined(head, listed.runs, tried);
      if (queued.length === 0) return { candidates, isContended };
      limits.addCounts(listed.runs);
      const reachable = isFifo ? new Set<string>() : await reachableWorkers(manager, context, queued);
      const choice = chooseEligible(
        strategy,
        present,
        queued,
        { lanes: lanesByRun(listed), limits },
        { now, reachable },
      );
      if (!isFifo) await this.#note(manager, choice, queued, now);
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
          isFifo,
        ),
      );
    }
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
    if (unlocked.length > 0) limits.setLockedCounts(await this.queue.keys.lock(manager, unlocked));
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
  head: readonly QueuedRun[],
  listed: readonly QueuedRun[],
  except: ReadonlySet<string>,
): readonly QueuedRun[] {
  if (head.length === 0) return listed;
  const open = head.filter(({ id }) => !except.has(id));
  return listed.length === 0 ? open : [...open, ...listed].toSorted(byQueueOrder);
}

/** The lanes of the listed runs, by their ids. */
function lanesByRun({ runs, lanes }: Candidates): ReadonlyMap<string, Lane> {
  return new Map(
    runs.flatMap(({ id, lane }): [string, Lane][] => {
      const found = lanes.get(lane);
      return found ? [[id, found]] : [];
    }),
  );
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
