import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { Run } from '../machine/run.js';
import { AvoidingRuns } from '../queue/avoiding-runs.js';
import type { LockedHead } from '../queue/queue-head.js';
import { QueueRepository } from '../queue/queue.repository.js';
import { RestrictedRuns, type RestrictedRun } from '../queue/restricted-runs.js';
import type {
  Assignment,
  Claimant,
  ClaimContext,
  ClaimingWorker,
  HeldRun,
  LockedRun,
  QueuedRun,
} from '../scheduling-strategy.js';
import { CONTENDED, NOTHING, WITHHELD, type ClaimOutcome } from './claim.js';
import { withinBytes } from './claim-bytes.js';
import { chooseEligible } from './eligibility.js';
import { ConcurrencyLimits } from './concurrency-limits.js';

/** How often a strategy chooses again after other transactions took runs that it had chosen. */
const ROUNDS = 3;

/** Runs that avoid a worker, beyond those that the claims ask for, that one claim considers. */
const LOOK_AHEAD = 100;

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
  /** True when there are runs that not every claim gets: the queue is not empty for all. */
  readonly isWithheld: boolean;
}

/** Runs that not every claim gets. */
interface Withheld {
  readonly runs: readonly QueuedRun[];
  /** Those of them that are in the restricted queue. */
  readonly restricted: readonly RestrictedRun[];
  /** What their workers must have, by the id of the run. */
  readonly required: ReadonlyMap<string, readonly string[]>;
  /** Whether there are any, for whatever worker. */
  readonly exist: boolean;
  /** Those that may claim; empty unless a run avoids a claimant. */
  readonly workers: readonly ClaimingWorker[];
}

/** Lets a strategy choose runs of the queue for claimants, and locks the chosen runs. Their bytes are bounded. */
@Injectable()
export class CandidateSelector {
  constructor(
    private readonly queue: QueueRepository,
    private readonly avoiding: AvoidingRuns,
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
    const withheld = await this.#findWithheld(manager, context, claimants, now, new Set());
    const head = await this.queue.lockHead(manager, strategy.candidatesFor(claimants, now).limit);
    const scene = { head, withheld };
    return this.#bounded(await this.#choose(manager, context, claimants, now, scene));
  }

  /** The outcome of a FIFO claim that got nothing. Rows that other transactions have locked make a queue look empty. */
  async classifyEmptyClaim(manager: EntityManager, { isWithheld }: Selection): Promise<ClaimOutcome> {
    const [isEmpty, exist] = await Promise.all([
      this.queue.isEmpty(manager),
      isWithheld || this.#findUnseen(manager),
    ]);
    // Runs that not every claim gets were not looked for: their notification has not arrived yet.
    if (!isEmpty || (exist && !isWithheld)) return CONTENDED;
    return exist ? WITHHELD : NOTHING;
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

  async #findUnseen(manager: EntityManager): Promise<boolean> {
    const { avoiding, restricted } = await this.avoiding.findWithheld(manager);
    if (restricted) this.restricted.expect();
    return avoiding || restricted;
  }

  /** Leaves the other chosen runs in the queue. */
  #bounded({ candidates, isContended, isWithheld }: Selection): Selection {
    const within = withinBytes(candidates, this.settings.maxAnswerBytes);
    return { candidates: within, isContended: isContended || within.length < candidates.length, isWithheld };
  }

  /** @param first for a FIFO strategy: the locked head, with the runs beside it for the first round */
  async #choose(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
    first?: { readonly head: readonly LockedHead[]; readonly withheld: Withheld },
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
      const withheld =
        round === 1 && first
          ? first.withheld
          : await this.#findWithheld(manager, context, present, now, tried);
      const query = strategy.candidatesFor(present, now);
      const listed = first?.head ?? (await this.queue.list(manager, query, ids, [...tried]));
      const isWithheld = withheld.exist;
      const queued = joined(listed, withheld.runs, tried);
      if (queued.length === 0) return { candidates, isContended, isWithheld };
      limits.addCounts(withheld.restricted);
      const reachable = first ? new Set<string>() : await reachableWorkers(manager, context, queued);
      const scene = { workers: withheld.workers, required: withheld.required, limits };
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
      if (wanted.length === 0) return { candidates, isContended, isWithheld };
      const locked = await this.#lock(manager, wanted, held, limits);
      candidates.push(...locked);
      for (const { run } of wanted) tried.add(run.id);
      if (locked.length === wanted.length) return { candidates, isContended, isWithheld };
      if (round === ROUNDS) return { candidates, isContended: true, isWithheld };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          locked.filter(({ claim }) => claim === i),
          first !== undefined,
        ),
      );
    }
  }

  /** The runs that not every claim gets: those that avoid a worker, and those of the restricted queue. */
  async #findWithheld(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
    tried: ReadonlySet<string>,
  ): Promise<Withheld> {
    const query = context.strategy.candidatesFor(claimants, now);
    const [avoiding, restricted] = await Promise.all([
      this.avoiding.find(manager, claimants, query.limit + LOOK_AHEAD),
      this.restricted.list(manager, claimants, query, [...tried]),
    ]);
    const runs = [...avoiding.runs, ...restricted.runs];
    return {
      runs,
      restricted: restricted.runs,
      required: new Map(restricted.runs.map(({ id, required }) => [id, required])),
      exist: avoiding.exist || restricted.exist,
      workers: await workersFor(manager, context, claimants, runs),
    };
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

/** The workers that runs which avoid a claimant could get instead; read only if there are such runs. */
async function workersFor(
  manager: EntityManager,
  context: ClaimContext,
  claimants: readonly Claimant[],
  runs: readonly Run[],
): Promise<readonly ClaimingWorker[]> {
  if (runs.length === 0) return [];
  const ids = new Set<string | null>(claimants.map(({ id }) => id));
  return runs.some(({ avoidedWorker }) => ids.has(avoidedWorker)) ? context.listClaiming(manager) : [];
}

/** Both lists in queue order, without the ids in `except`. */
function joined(
  listed: readonly QueuedRun[],
  withheld: readonly QueuedRun[],
  except: ReadonlySet<string>,
): readonly QueuedRun[] {
  if (withheld.length === 0 && except.size === 0) return listed;
  const byId = new Map([...listed, ...withheld].map((run) => [run.id, run]));
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
