import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { type JobRun, ScheduledJob } from '../../common/scheduling/scheduled-job.js';
import type { BatchChange } from '../../runs/journal/command.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { CommittedGroups } from '../../runs/journal/committed-groups.js';
import { whyBroken } from '../../runs/journal/dependents.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { isMet } from '../../runs/machine/run.js';
import type { BrokenDependency } from '../../runs/machine/run-command.js';
import { OWNER } from '../members/array-members.js';
import { whyStopped, type SeenEdge } from '../group-changes.js';
import { AT_ONCE, DEPENDENCIES, GROUP_MEMBERS, TAKEN_OVER_MS } from '../members/groups.job.js';
import {
  DEPENDENCY_LEDGER,
  DependencyRepository,
  EDGES_PER_PAGE,
  type FoundEnd,
} from './dependency.repository.js';
import { InputSupply } from './input-supply.js';

/** Runs whose inputs are read together. */
const RUNS_PER_BATCH = 20;

type DecidingEnd = Extract<FoundEnd, { readonly id: string }>;

/** A dependency that an end decides. */
interface DecidedEdge {
  readonly end: DecidingEnd;
  readonly outcome: 'met' | 'broken';
}

/** What is to be told to one that waits. */
interface Told {
  met: number;
  mended: number;
  broken: Extract<BrokenDependency, { parentId: string }> | undefined;
}

/** Tells runs and arrays that wait of the ends that they wait for. */
@Injectable()
export class DependenciesJob implements OnModuleInit, OnModuleDestroy {
  #subscription: Subscription | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly dependencies: DependencyRepository,
    private readonly supply: InputSupply,
    private readonly journal: RunJournal,
    private readonly committed: CommittedGroups,
    private readonly notices: CommitNotices,
    private readonly scheduler: JobScheduler,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices.subscribe((notice) => {
      if (notice?.groupWork !== undefined) this.scheduler.runWithin(DEPENDENCIES, TAKEN_OVER_MS);
    });
    this.#subscription = this.committed.subscribe(({ groupWork }) => {
      if (groupWork.hasEnds) this.scheduler.runWithin(DEPENDENCIES, 0);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
    this.#subscription?.unsubscribe();
  }

  @ScheduledJob({
    name: DEPENDENCIES,
    description:
      'tells runs of the ends that they wait for, and reads their inputs; also runs at each such end',
    ...AT_ONCE,
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  /** Several processes may begin the same ends: the journal carries out what the first does. @returns the number of dependencies and runs */
  async runOnce(stop?: AbortSignal): Promise<number> {
    let count = 0;
    for (;;) {
      if (stop?.aborted === true) return count;
      const told = await this.#tellPage();
      const supplied = await this.#supplySome();
      if (told === null && supplied === 0) return count;
      count += (told ?? 0) + supplied;
    }
  }

  /** @returns the number of dependencies; null: there is no end */
  async #tellPage(): Promise<number | null> {
    const found = await this.dependencies.listEnds();
    if (found.length === 0) return null;
    const ends = [...new Set(found.map(({ endId }) => endId))];
    const finished = found.length < EDGES_PER_PAGE ? ends : ends.slice(0, -1);
    const outcomes = outcomesOf(found);
    const seen: SeenEdge[] = [];
    const runs = new Map<string, Told>();
    const arrays = new Map<string, Told>();
    for (const { end, outcome } of outcomes.values()) {
      const { id, since, childRun, childGroup } = end;
      seen.push({ id, outcome: end.outcome, since });
      if (childRun !== null) note(runs, childRun, end, outcome);
      if (childGroup !== null) note(arrays, childGroup, end, outcome);
    }
    const cancelled = await this.#cancelled(runs);
    for (const edge of [...cancelled.values()].flat()) if (!outcomes.has(edge.id)) seen.push(edge);
    const told = [...arrays].map(([id, { mended, broken }]) => ({
      id,
      isMended: mended > 0,
      broken: broken ? whyStopped(broken) : null,
    }));
    await this.journal.carryOut(
      {
        ledger: DEPENDENCY_LEDGER,
        record: {
          kind: 'ends',
          ends,
          finished,
          seen,
          outcomes: [...outcomes].map(([id, { outcome }]) => ({ id, outcome })),
          arrays: told,
        },
        changes: [...runs].flatMap(([id, one]) => changeOf(id, one, cancelled.get(id)) ?? []),
      },
      OWNER,
    );
    if (arrays.size > 0) this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return outcomes.size;
  }

  /** By run, the dependencies of those that ends had cancelled of which some are mended now. */
  async #cancelled(runs: ReadonlyMap<string, Told>): Promise<ReadonlyMap<string, SeenEdge[]>> {
    const mended = [...runs].flatMap(([id, told]) => (told.mended > 0 && !told.broken ? [id] : []));
    const edges = mended.length === 0 ? [] : await this.dependencies.listCancelled(mended);
    const byChild = new Map<string, SeenEdge[]>();
    for (const { child, ...edge } of edges) byChild.set(child, [...(byChild.get(child) ?? []), edge]);
    return byChild;
  }

  async #supplySome(): Promise<number> {
    const runs = await this.dependencies.listUnsupplied(RUNS_PER_BATCH);
    await Promise.all(
      runs.map(async (run) => {
        const outcome = await this.supply.read(run);
        const problem = 'problem' in outcome ? outcome.problem : undefined;
        const inputs = 'problem' in outcome ? null : outcome.inputs;
        await this.journal.carryOut(
          {
            ledger: DEPENDENCY_LEDGER,
            record: { kind: 'inputs', runId: run.id, inputs },
            changes: [{ runId: run.id, command: { type: 'supply', problem } }],
          },
          OWNER,
        );
      }),
    );
    return runs.length;
  }
}

/** By dependency, the end that decides it, and how: the first one, or after one that broke it the first one that sets it right. */
function outcomesOf(found: readonly FoundEnd[]): ReadonlyMap<string, DecidedEdge> {
  const outcomes = new Map<string, DecidedEdge>();
  for (const end of found) {
    if (end.id === null) continue;
    const before = outcomes.get(end.id);
    if (before && !(before.outcome === 'broken' && end.reopens && end.need !== 'failed')) continue;
    outcomes.set(end.id, { end, outcome: isMet(end.need, end.state) ? 'met' : 'broken' });
  }
  return outcomes;
}

function note(
  told: Map<string, Told>,
  child: string,
  { parentId, isGroup, state, need, outcome: was }: DecidingEnd,
  outcome: 'met' | 'broken',
): void {
  const one = told.get(child) ?? { met: 0, mended: 0, broken: undefined };
  told.set(child, one);
  if (outcome === 'broken')
    one.broken ??= {
      parentId,
      isGroup,
      reason: whyBroken({ parentId, isGroup, need }, state),
    };
  else if (was === 'broken') one.mended += 1;
  else one.met += 1;
}

/** Opens a run again that ends had cancelled, unless another one keeps it cancelled; tells another one of the ends. */
function changeOf(
  runId: string,
  { met, mended, broken }: Told,
  edges: readonly SeenEdge[] | undefined,
): BatchChange | undefined {
  if (edges && edges.filter(({ outcome }) => outcome === 'broken').length === mended) {
    const open = edges.filter(({ outcome }) => outcome === null).length - met;
    return {
      runId,
      command: { type: 'reopen', waitsFor: open > 0 ? open : null },
      onlyIn: ['CANCELLED'],
    };
  }
  return met > 0 || broken ? { runId, command: { type: 'resolve', met, broken } } : undefined;
}
