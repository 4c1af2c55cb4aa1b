import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { Run } from '../machine/run.js';
import { QueueRepository } from '../queue/queue.repository.js';
import type {
  Assignment,
  Claimant,
  ClaimContext,
  HeldRun,
  LockedRun,
  QueuedRun,
} from '../scheduling-strategy.js';
import { withinBytes } from './claim-bytes.js';

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
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxAnswerBytes'>,
  ) {}

  /** For a FIFO strategy: the head of the queue is read and locked in one statement. */
  async takeHead(
    manager: EntityManager,
    { strategy }: ClaimContext,
    claimants: readonly Claimant[],
    now: Date,
  ): Promise<Selection> {
    const { limit } = strategy.candidatesFor(claimants, now);
    const queued = await this.queue.lockHead(manager, limit);
    const { assignments } = strategy.choose(claimants, queued, { now, reachable: new Set() });
    return this.#bounded({ candidates: matched(assignments, claimants, queued), isContended: false });
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
      const queued = await this.queue.list(manager, query, ids, [...tried]);
      if (queued.length === 0) return { candidates, isContended };
      const reachable = await reachableWorkers(manager, context, queued);
      const choice = strategy.choose(present, queued, { now, reachable });
      if (choice.reservations?.length) await this.queue.reserve(manager, choice.reservations);
      if (choice.passedOver?.length) await this.queue.notePassedOver(manager, choice.passedOver, now);
      const wanted = matched(choice.assignments, present, queued);
      if (wanted.length === 0) return { candidates, isContended };
      const locked = await this.#lock(manager, wanted);
      candidates.push(...locked);
      for (const { run } of wanted) tried.add(run.id);
      if (locked.length === wanted.length) return { candidates, isContended };
      if (round === ROUNDS) return { candidates, isContended: true };
      present = present.map((claimant, i) =>
        withRuns(
          claimant,
          locked.filter(({ claim }) => claim === i),
        ),
      );
    }
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
