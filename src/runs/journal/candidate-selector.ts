import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { Run } from '../machine/run.js';
import { AvoidingRuns, type AvoidingRunsFound } from '../queue/avoiding-runs.js';
import { QueueRepository } from '../queue/queue.repository.js';
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
import { chooseEligible, isEligible } from './eligibility.js';

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
  /** True when the queue of a FIFO strategy has runs that avoid a worker: it is not empty for all. */
  readonly isWithheld: boolean;
}

/** Lets a strategy choose runs of the queue for claimants, and locks the chosen runs. Their bytes are bounded. */
@Injectable()
export class CandidateSelector {
  constructor(
    private readonly queue: QueueRepository,
    private readonly avoiding: AvoidingRuns,
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
    const { limit } = strategy.candidatesFor(claimants, now);
    const avoiding = await this.avoiding.find(manager, claimants, limit + LOOK_AHEAD);
    const workers = await workersFor(manager, context, claimants, avoiding);
    const eligible = avoiding.runs.filter((run) =>
      claimants.some((claimant) => isEligible(strategy, claimant, run, workers)),
    );
    const head = await this.queue.lockHead(manager, limit);
    const queued = [...head, ...(await this.#lockNoted(manager, eligible.slice(0, limit)))].toSorted(
      byQueueOrder,
    );
    const choice = chooseEligible(strategy, claimants, queued, workers, { now, reachable: new Set() });
    return this.#bounded({
      candidates: matched(choice.assignments, claimants, queued),
      isContended: false,
      isWithheld: avoiding.exist,
    });
  }

  /** The outcome of a FIFO claim that got nothing. Rows that other transactions have locked make a queue look empty. */
  async judgeEmpty(manager: EntityManager, { isWithheld }: Selection): Promise<ClaimOutcome> {
    const [isEmpty, exist] = await Promise.all([
      this.queue.isEmpty(manager),
      isWithheld || this.avoiding.exist(manager),
    ]);
    // A run that avoids a worker was not looked for: its notification has not arrived yet.
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

  /** Leaves the other chosen runs in the queue. */
  #bounded({ candidates, isContended, isWithheld }: Selection): Selection {
    const within = withinBytes(candidates, this.settings.maxAnswerBytes);
    return { candidates: within, isContended: isContended || within.length < candidates.length, isWithheld };
  }

  async #choose(
    manager: EntityManager,
    context: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    const { strategy } = context;
    const ids = claimants.map(({ id }) => id);
    const candidates: Candidate[] = [];
    const tried = new Set<string>();
    let present = claimants;
    for (let round = 1; ; round += 1) {
      // Runs that others hold may return to the queue, which is not announced.
      const isContended = candidates.length < tried.size;
      const query = strategy.candidatesFor(present, now);
      const avoiding = await this.avoiding.find(manager, present, query.limit + LOOK_AHEAD);
      const workers = await workersFor(manager, context, present, avoiding);
      const queued = joined(await this.queue.list(manager, query, ids, [...tried]), avoiding.runs, tried);
      if (queued.length === 0) return { candidates, isContended, isWithheld: false };
      const reachable = await reachableWorkers(manager, context, queued);
      const choice = chooseEligible(strategy, present, queued, workers, { now, reachable });
      if (choice.reservations?.length) await this.queue.reserve(manager, choice.reservations);
      if (choice.passedOver?.length) await this.queue.notePassedOver(manager, choice.passedOver, now);
      const wanted = matched(choice.assignments, present, queued);
      if (wanted.length === 0) return { candidates, isContended, isWithheld: false };
      const locked = await this.#lock(manager, wanted);
      candidates.push(...locked);
      for (const { run } of wanted) tried.add(run.id);
      if (locked.length === wanted.length) return { candidates, isContended, isWithheld: false };
      if (round === ROUNDS) return { candidates, isContended: true, isWithheld: false };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          locked.filter(({ claim }) => claim === i),
        ),
      );
    }
  }

  /** Those of the listed runs that could be locked. */
  async #lockNoted(manager: EntityManager, listed: readonly QueuedRun[]): Promise<(QueuedRun & LockedRun)[]> {
    if (listed.length === 0) return [];
    const notes = new Map(
      listed.map(({ id, passedOverAt, reservedFor }) => [id, { passedOverAt, reservedFor }]),
    );
    const locked = await this.queue.lockAll(
      manager,
      listed.map(({ id }) => id),
    );
    return locked.flatMap((run) => {
      const note = notes.get(run.id);
      return note ? [{ ...run, ...note }] : [];
    });
  }

  /** The candidates that could be locked, with their runs as they are now. */
  async #lock(manager: EntityManager, wanted: readonly Candidate<Run>[]): Promise<Candidate[]> {
    const ids = wanted.map(({ run }) => run.id);
    const locked = new Map((await this.queue.lockAll(manager, ids)).map((run) => [run.id, run]));
    return wanted.flatMap((candidate): Candidate[] => {
      const run = locked.get(candidate.run.id);
      return run ? [{ ...candidate, run }] : [];
    });
  }
}

/** The workers that runs which avoid a claimant could get instead; read only if there are such runs. */
async function workersFor(
  manager: EntityManager,
  context: ClaimContext,
  claimants: readonly Claimant[],
  { runs }: AvoidingRunsFound,
): Promise<readonly ClaimingWorker[]> {
  if (runs.length === 0) return [];
  const ids = new Set<string | null>(claimants.map(({ id }) => id));
  return runs.some(({ avoidedWorker }) => ids.has(avoidedWorker)) ? context.listClaiming(manager) : [];
}

/** Both lists in queue order, without the ids in `except`. */
function joined(
  listed: readonly QueuedRun[],
  avoiding: readonly QueuedRun[],
  except: ReadonlySet<string>,
): readonly QueuedRun[] {
  if (avoiding.length === 0) return listed;
  const byId = new Map([...listed, ...avoiding].map((run) => [run.id, run]));
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

function withRuns(claimant: Claimant, candidates: readonly Candidate[]): Claimant {
  const { held, max } = claimant;
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
