import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { currentTime } from '../../database/sql.js';
import { isDatabaseUnavailable, isRetryable, isStatementGivenUp } from '../../database/unavailable.js';
import { jsonText } from '../../json/json-text.js';
import type { JsonObject } from '../../json/json-value.js';
import { decide, isRejected, type RunCommand } from '../run-machine/decide.js';
import type { NewRun, Run } from '../run-machine/run.js';
import type { IdempotencyClaim } from '../idempotency.repository.js';
import { IdempotencyMismatch, JournalOverloaded } from '../run.errors.js';
import type { ClaimingWorker, SchedulingStrategy } from '../scheduling-strategy.js';
import { GroupLane, LaneFull, type MemberOutcome } from './group-lane.js';
import { JournalMetrics } from './journal-metrics.js';
import { JournalStore } from './journal-store.js';
import { RunGroup } from './run-group.js';

/** A worker's wish for work. */
export interface Claim {
  readonly worker: ClaimingWorker;
  readonly strategy: SchedulingStrategy;
  /** Asked at the moment of handing out: false when the worker has gone stale or its caller has gone away. */
  readonly stillWanted: () => boolean;
}

/** A run that a claim got. */
export interface ClaimedRun {
  readonly run: Run;
  readonly image: string;
  readonly inputs: JsonObject;
}

/** The key of a request that may be sent again, and what it was sent with. */
export interface Idempotency {
  /** Digest of the key and of what it belongs to. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
}

/** What became of a creation: a new run, or the run that an earlier request with the same key made. */
export type Creation = { readonly run: Run } | { readonly replayOf: string };

type Member =
  | { readonly kind: 'create'; readonly fresh: NewRun; readonly idempotency: Idempotency | undefined }
  | { readonly kind: 'change'; readonly runId: string; readonly command: RunCommand }
  | { readonly kind: 'claim'; readonly claim: Claim };

type Result = Creation | { readonly claimed: readonly ClaimedRun[] };

const MAX_GROUP = 200;
const MAX_WAITING = 10_000;
const MB = 1024 * 1024;
const MAX_GROUP_BYTES = 8 * MB;
const MAX_WAITING_BYTES = 64 * MB;

/**
 * The one road of every change to a run. Commands are committed in groups: one transaction with a fixed number of
 * statements, in which each command is decided by the state machine in order of arrival and gets its own answer.
 * Claims of a group are served after its other commands, so they see what those made of the queue.
 */
@Injectable()
export class RunJournal {
  readonly #lane: GroupLane<Member, Result>;

  constructor(
    private readonly dataSource: DataSource,
    private readonly store: JournalStore,
    metrics: JournalMetrics,
  ) {
    this.#lane = new GroupLane({
      maxGroup: MAX_GROUP,
      maxWaiting: MAX_WAITING,
      weigh: bytesOf,
      maxGroupBytes: MAX_GROUP_BYTES,
      maxWaitingBytes: MAX_WAITING_BYTES,
      commit: (members) => this.#commit(members),
      // A statement that took too long says nothing about the others of its group.
      isFatal: (error) => isDatabaseUnavailable(error) && !isStatementGivenUp(error),
      isRetryable,
      onGroup: (size, seconds) => metrics.observeGroup(size, seconds),
    });
  }

  /**
   * Creates a run, or finds the one that the same request made before.
   * @throws IdempotencyMismatch for a key that came with another content, JournalOverloaded, or what the database says
   */
  async create(fresh: NewRun, idempotency?: Idempotency): Promise<Creation> {
    const result = await this.#submit({ kind: 'create', fresh, idempotency });
    return 'replayOf' in result ? result : { run: runOf(result) };
  }

  /** The id of the run that an earlier request with this key made, or null. @throws IdempotencyMismatch */
  async findReplay({ scope, requestHash }: Idempotency): Promise<string | null> {
    const claim = await this.store.findClaim(this.dataSource.manager, scope);
    if (claim && claim.requestHash !== requestHash) throw new IdempotencyMismatch();
    return claim?.runId ?? null;
  }

  /** Carries out a command on a run. @throws RunNotFound, RunRejected, JournalOverloaded, or what the database says */
  async change(runId: string, command: RunCommand): Promise<Run> {
    return runOf(await this.#submit({ kind: 'change', runId, command }));
  }

  /** Hands runs to a worker as the strategy chooses; none is an answer. @throws JournalOverloaded, or what the database says */
  async claim(claim: Claim): Promise<readonly ClaimedRun[]> {
    const result = await this.#submit({ kind: 'claim', claim });
    return 'claimed' in result ? result.claimed : [];
  }

  /** Resolves when everything that was handed in has been answered. */
  idle(): Promise<void> {
    return this.#lane.idle();
  }

  async #submit(member: Member): Promise<Result> {
    try {
      return await this.#lane.submit(member);
    } catch (error) {
      throw error instanceof LaneFull ? new JournalOverloaded() : error;
    }
  }

  #commit(members: readonly Member[]): Promise<readonly MemberOutcome<Result>[]> {
    return this.dataSource.transaction(async (manager) => {
      const claims = await this.store.register(manager, members.flatMap(idempotencyClaim));
      const touched = members.flatMap((member) => (member.kind === 'change' ? [member.runId] : []));
      const locked = await this.store.lock(manager, new Set(touched));
      const now = await currentTime(manager);
      const group = new RunGroup(now, locked);
      const outcomes = members.map((member) => decideMember(group, member, claims));
      await this.store.write(manager, group);
      await this.#serveClaims(manager, members, outcomes, now);
      await this.store.mirror(manager, group);
      return outcomes;
    });
  }

  async #serveClaims(
    manager: EntityManager,
    members: readonly Member[],
    outcomes: MemberOutcome<Result>[],
    now: Date,
  ): Promise<void> {
    const open = members.flatMap((member, at) =>
      member.kind === 'claim' && member.claim.stillWanted() ? [{ at, claim: member.claim }] : [],
    );
    for (const strategy of new Set(open.map(({ claim }) => claim.strategy))) {
      const served = open.filter(({ claim }) => claim.strategy === strategy);
      const claimed = await this.#handOut(
        manager,
        strategy,
        served.map(({ claim }) => claim.worker),
        now,
      );
      served.forEach(({ at }, i) => {
        outcomes[at] = { value: { claimed: claimed[i] ?? [] } };
      });
    }
  }

  /** Answers what each of the workers gets. */
  async #handOut(
    manager: EntityManager,
    strategy: SchedulingStrategy,
    workers: readonly ClaimingWorker[],
    now: Date,
  ): Promise<ClaimedRun[][]> {
    const candidates = await this.store.lockQueueHead(manager, strategy.candidatesFor(workers.length));
    const free = new Map(candidates.map((run) => [run.id, run]));
    const assigned = strategy.choose(workers, candidates).flatMap(({ claim, runId, gpuId }) => {
      const run = free.get(runId);
      const worker = workers[claim];
      if (!run || !worker) return [];
      free.delete(runId);
      const outcome = decide(run, { type: 'assign', workerId: worker.id, gpuId }, now);
      return isRejected(outcome) ? [] : [{ claim, run: outcome.run }];
    });
    const written = await this.store.assign(
      manager,
      assigned.map(({ run }) => run),
    );
    const carried = new Map(written.map((row) => [row.id, row]));
    return workers.map((_, i) =>
      assigned.flatMap(({ claim, run }) => {
        const row = carried.get(run.id);
        return claim === i && row ? [{ run, image: row.image, inputs: row.inputs }] : [];
      }),
    );
  }
}

/** The claim that a creation with a key makes to be the only one. */
function idempotencyClaim(member: Member): IdempotencyClaim[] {
  if (member.kind !== 'create' || !member.idempotency) return [];
  return [{ ...member.idempotency, runId: member.fresh.id }];
}

function decideMember(
  group: RunGroup,
  member: Member,
  claims: ReadonlyMap<string, IdempotencyClaim>,
): MemberOutcome<Result> {
  try {
    switch (member.kind) {
      case 'create': {
        const { fresh, idempotency } = member;
        const counts = idempotency && claims.get(idempotency.scope);
        if (!counts || counts.runId === fresh.id) return { value: { run: group.create(fresh) } };
        if (counts.requestHash !== idempotency.requestHash) return { error: new IdempotencyMismatch() };
        return { value: { replayOf: counts.runId } };
      }
      case 'change':
        return { value: { run: group.change(member.runId, member.command) } };
      case 'claim':
        return { value: { claimed: [] } };
    }
  } catch (error) {
    return { error };
  }
}

/** Bytes of what a member brings along. */
function bytesOf(member: Member): number {
  switch (member.kind) {
    case 'create':
      return jsonText(member.fresh.inputs).length + jsonText(member.fresh.outputsTemplate).length;
    case 'change': {
      const { command } = member;
      if (command.type === 'event') return jsonText(command.event.payload).length;
      return command.type === 'patch' && command.outputs ? jsonText(command.outputs).length : 0;
    }
    case 'claim':
      return 0;
  }
}

function runOf(result: Result): Run {
  if ('run' in result) return result.run;
  throw new Error('the journal answered a claim to a command');
}
