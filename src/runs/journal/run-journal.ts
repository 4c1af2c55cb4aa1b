import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { JournalDataSource } from '../../database/reserved-connection.js';
import { Pipeline } from '../../database/pipeline.js';
import type { StatementTracer } from '../../database/statement-tracer.js';
import { currentTime } from '../../database/sql.js';
import {
  isDatabaseUnavailable,
  isDuplicate,
  isRetryable,
  isStatementGivenUp,
} from '../../database/unavailable.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun } from '../machine/run.js';
import { JournalOverloaded } from '../run.errors.js';
import { RunViews } from '../http/run-view.js';
import { GroupCommitQueue, LaneFull, type LaneState, type MemberOutcome } from './group-commit-queue.js';
import type { Claim, ClaimOutcome } from './claim.js';
import { ClaimAllocator } from './claim-allocator.js';
import {
  bytesOf,
  decideMember,
  keyOf,
  type Effect,
  type PendingCommand,
  type Result,
} from './pending-command.js';
import { JournalStore } from './journal-store.js';
import { JournalInstrumentation, type Committed } from './journal-instrumentation.js';
import { IdempotencyLedger, type Idempotency } from './idempotency-ledger.js';
import { RunGroup } from './run-group.js';

/** How a command is to be carried out and answered. */
export interface ChangeOptions {
  /** The key of the request, so that it is carried out once however often it is sent. */
  readonly idempotency?: Idempotency | undefined;
  /** Whether the effect carries a view of the whole run, read in the command's own commit. */
  readonly wantsView?: boolean;
  /** Asked when the command is decided: true when one that must come before it was not carried out. */
  readonly isHeldBack?: (() => boolean) | undefined;
}

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
  readonly #lane: GroupCommitQueue<PendingCommand, Result>;
  readonly #onCreate = new Set<() => void>();
  #announcesRoom = false;

  constructor(
    @Inject(JournalDataSource) private readonly connection: Pick<JournalDataSource, 'dataSource'>,
    private readonly store: JournalStore,
    private readonly handOut: ClaimAllocator,
    private readonly views: RunViews,
    private readonly watch: JournalInstrumentation,
  ) {
    this.#lane = new GroupCommitQueue({
      maxGroup: MAX_GROUP,
      maxWaiting: MAX_WAITING,
      weigh: bytesOf,
      maxGroupBytes: MAX_GROUP_BYTES,
      maxWaitingBytes: MAX_WAITING_BYTES,
      commit: (members, tries) =>
        watch.commit(members, tries, (statements) => this.#commit(members, statements)),
      // A statement that took too long says nothing about the others of its group.
      isFatal: (error) => isDatabaseUnavailable(error) && !isStatementGivenUp(error),
      // Two processes that served one claim: whoever comes second finds what the first handed out.
      isRetryable: (error) => isRetryable(error) || isDuplicate(error),
      onGroup: (size, seconds) => watch.metrics.observeGroup(size, seconds),
    });
    watch.metrics.watch(this.#lane);
  }

  /**
   * Creates a run, or finds the one that the same request made before.
   * @throws IdempotencyMismatch for a key that came with another content, JournalOverloaded, or what the database says
   */
  async create(fresh: NewRun, idempotency?: Idempotency): Promise<Effect> {
    const creation = this.#submit({ kind: 'create', fresh, idempotency });
    for (const listener of this.#onCreate) listener();
    return effectOf(await creation);
  }

  /**
   * Carries out a command on a run.
   * @throws RunNotFound, RunRejected, IdempotencyMismatch, HeldBack, JournalOverloaded, or what the database says
   */
  async change(
    runId: string,
    command: RunCommand,
    { idempotency, wantsView = false, isHeldBack }: ChangeOptions = {},
  ): Promise<Effect> {
    return effectOf(
      await this.#submit({ kind: 'change', runId, command, idempotency, wantsView, isHeldBack }),
    );
  }

  /** Hands runs to a worker as the strategy chooses; none is an answer. @throws JournalOverloaded, or what the database says */
  async claim(claim: Claim): Promise<ClaimOutcome> {
    const result = await this.#submit({ kind: 'claim', claim });
    if ('kind' in result) return result;
    throw new Error('the journal answered a command to a claim');
  }

  /**
   * Has the listener called whenever a creation has been handed in. A claim that it hands in at once is committed
   * together with the creation, and served from it.
   * @returns ends the subscription
   */
  onCreate(listener: () => void): () => void {
    this.#onCreate.add(listener);
    return () => void this.#onCreate.delete(listener);
  }

  /** Whether it takes commands at the moment, and if not, why. */
  get state(): LaneState {
    return this.#lane.state;
  }

  /** From now on commits announce workers that have got room, for a strategy that looks at what they have left. */
  announceRoom(): void {
    this.#announcesRoom = true;
  }

  /** Resolves when everything that was handed in has been answered. */
  idle(): Promise<void> {
    return this.#lane.idle();
  }

  async #submit(member: PendingCommand): Promise<Result> {
    this.watch.note(member);
    try {
      return await this.#lane.submit(member);
    } catch (error) {
      if (!(error instanceof LaneFull)) throw error;
      this.watch.metrics.refused(error.reason);
      throw new JournalOverloaded();
    }
  }

  #commit(members: readonly PendingCommand[], statements?: StatementTracer): Promise<Committed> {
    const work = async (manager: EntityManager, pipeline: Pipeline): Promise<Committed> => {
      const touched = members.flatMap((member) => (member.kind === 'change' ? [member.runId] : []));
      const [registered, locked, now] = await Promise.all([
        this.store.register(manager, members.flatMap(keyOf)),
        this.store.lock(manager, new Set(touched)),
        // After the locks: nobody's time is before what the last holder of its run saw.
        currentTime(manager),
      ]);
      const keys = new IdempotencyLedger(registered);
      const group = new RunGroup(now, locked);
      const outcomes = members.map((member) => decideMember(group, member, keys));
      pipeline.also(this.store.forget(manager, keys.unused));
      pipeline.also(this.store.write(manager, group));
      const given = await this.#serveClaims(manager, members, outcomes, group);
      pipeline.also(this.store.announce(manager, group, given));
      pipeline.also(this.store.count(manager, group));
      if (this.#announcesRoom) pipeline.also(this.store.announceRoom(manager, group.relieved));
      await this.#addViews(manager, members, outcomes);
      const mirrored = this.store.mirror(manager, group);
      pipeline.also(mirrored);
      return { outcomes, group, mirrored };
    };
    return Pipeline.transaction(this.connection.dataSource, work, statements);
  }

  /** Answers the ids of the runs that were handed out. */
  async #serveClaims(
    manager: EntityManager,
    members: readonly PendingCommand[],
    outcomes: MemberOutcome<Result>[],
    { now, tally, counts }: RunGroup,
  ): Promise<ReadonlySet<string>> {
    const claims = members.flatMap((member, at) =>
      member.kind === 'claim' ? [{ at, claim: member.claim }] : [],
    );
    if (claims.length === 0) return new Set();
    const served = await this.handOut.serve(
      manager,
      claims.map(({ claim }) => claim),
      now,
    );
    for (const [i, { at }] of claims.entries()) {
      const outcome = served[i];
      if (!outcome) continue;
      outcomes[at] = { value: outcome };
      if (outcome.kind !== 'served') continue;
      tally.move('PENDING', 'ASSIGNED', outcome.runs.length);
      for (const { run } of outcome.runs) counts.handOut(run);
    }
    return new Set(served.flatMap(({ runs }) => runs.map(({ run }) => run.id)));
  }

  async #addViews(
    manager: EntityManager,
    members: readonly PendingCommand[],
    outcomes: MemberOutcome<Result>[],
  ): Promise<void> {
    const wanted = outcomes.flatMap((outcome, at) => {
      const member = members[at];
      if (!('value' in outcome) || 'kind' in outcome.value || member?.kind === 'claim') return [];
      const isReplay = 'replayOf' in outcome.value;
      const wantsView = member?.kind === 'change' ? member.wantsView : isReplay;
      return wantsView ? [{ at, effect: outcome.value, runId: idOf(outcome.value) }] : [];
    });
    if (wanted.length === 0) return;
    const views = await this.views.read(manager, [...new Set(wanted.map(({ runId }) => runId))]);
    for (const { at, effect, runId } of wanted) {
      outcomes[at] = { value: { ...effect, view: views.get(runId) } };
    }
  }
}

function idOf(effect: Effect): string {
  return 'run' in effect ? effect.run.id : effect.replayOf;
}

function effectOf(result: Result): Effect {
  if ('kind' in result) throw new Error('the journal answered a claim to a command');
  return result;
}
