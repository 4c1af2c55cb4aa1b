import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { JournalDataSource } from '../../database/reserved-connection.js';
import { Pipeline } from '../../database/pipeline.js';
import type { StatementTracer } from '../../database/statement-tracer.js';
import {
  isDatabaseUnavailable,
  isDuplicate,
  isRetryable,
  isStatementGivenUp,
} from '../../database/unavailable.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun } from '../machine/run.js';
import { JournalOverloaded, RunNotFound } from '../run.errors.js';
import { isRunId } from '../storage/new-id.js';
import { RunViews } from '../storage/run-views.js';
import { ClaimAllocator } from './claim-allocator.js';
import type { Claim, ClaimOutcome } from './claim.js';
import { GroupCommitQueue, QueueFull, type CommandOutcome, type QueueState } from './group-commit-queue.js';
import { GroupWriter } from './group-writer.js';
import type { Idempotency } from './idempotency-ledger.js';
import { JournalInstrumentation } from './journal-instrumentation.js';
import {
  bytesOf,
  decidePending,
  type ChangeOptions,
  type CommittedGroup,
  type Effect,
  type PendingCommand,
  type Result,
} from './pending-command.js';
import { RunGroup } from './run-group.js';

const MB = 1024 * 1024;
const LIMITS = { maxGroup: 200, maxWaiting: 10_000, maxGroupBytes: 8 * MB, maxWaitingBytes: 64 * MB };

/**
 * All changes of runs go through the journal. It commits commands in groups: one transaction with a fixed number of
 * statements, in which the state machine decides each command in order of arrival, and each gets its own answer. The
 * claims of a group are served after its other commands, so they see the resulting queue.
 */
@Injectable()
export class RunJournal {
  readonly #queue: GroupCommitQueue<PendingCommand, Result>;
  readonly #createListeners = new Set<() => void>();
  #announcesFreeWorkers = false;

  constructor(
    @Inject(JournalDataSource) private readonly connection: Pick<JournalDataSource, 'dataSource'>,
    private readonly writer: GroupWriter,
    private readonly allocator: ClaimAllocator,
    private readonly views: RunViews,
    private readonly instrumentation: JournalInstrumentation,
  ) {
    this.#queue = new GroupCommitQueue({
      ...LIMITS,
      weigh: bytesOf,
      commit: (commands, tries) =>
        instrumentation.commit(commands, tries, (statements) => this.#commit(commands, statements)),
      // A statement timeout concerns one command, not the database.
      isFatal: (error) => isDatabaseUnavailable(error) && !isStatementGivenUp(error),
      // Duplicate: another process served the same claim; the next try finds the runs that it assigned.
      isRetryable: (error) => isRetryable(error) || isDuplicate(error),
    });
    instrumentation.metrics.observeQueue(this.#queue);
  }

  /** Creates a run or finds the earlier one. @throws IdempotencyMismatch, JournalOverloaded, database errors */
  async create(fresh: NewRun, idempotency?: Idempotency): Promise<Effect> {
    const creation = this.#submit({ kind: 'create', fresh, idempotency });
    for (const listener of this.#createListeners) listener();
    return effectOf(await creation);
  }

  /** Changes a run. @throws RunNotFound, RunRejected, IdempotencyMismatch, PrecedingEventFailed, JournalOverloaded, database errors */
  async change(runId: string, command: RunCommand, options: ChangeOptions = {}): Promise<Effect> {
    if (!isRunId(runId)) throw new RunNotFound(runId);
    return effectOf(await this.#submit({ kind: 'change', runId, command, ...options }));
  }

  /** Assigns runs to a worker. @throws JournalOverloaded, database errors */
  async claim(claim: Claim): Promise<ClaimOutcome> {
    const result = await this.#submit({ kind: 'claim', claim });
    if ('kind' in result) return result;
    throw new Error('the journal returned the result of another command to a claim');
  }

  /**
   * Calls the listener for each submitted creation; a claim that it submits at once is in the same group and can get the
   * run. @returns a function that unsubscribes
   */
  onCreate(listener: () => void): () => void {
    this.#createListeners.add(listener);
    return () => void this.#createListeners.delete(listener);
  }

  /** Whether it accepts commands, and if not, why. */
  get state(): QueueState {
    return this.#queue.state;
  }

  /** Makes commits announce workers with free capacity, for strategies that consider it. */
  announceFreeWorkers(): void {
    this.#announcesFreeWorkers = true;
  }

  /** Resolves when all submitted commands are answered. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  async #submit(pending: PendingCommand): Promise<Result> {
    this.instrumentation.submitted(pending);
    try {
      return await this.#queue.submit(pending);
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
      this.instrumentation.metrics.refused(error.reason);
      throw new JournalOverloaded();
    }
  }

  async #commit(commands: readonly PendingCommand[], tracer?: StatementTracer): Promise<CommittedGroup> {
    const work = async (manager: EntityManager, pipeline: Pipeline) => {
      const { keys, locked, now } = await this.writer.begin(manager, commands);
      const group = new RunGroup(now, locked);
      const outcomes = commands.map((pending) => decidePending(group, pending, keys));
      pipeline.also(this.writer.write(manager, group, keys.unused));
      const assigned = await this.#serveClaims(manager, commands, outcomes, group);
      pipeline.also(this.writer.announce(manager, group, assigned, this.#announcesFreeWorkers));
      await this.#addViews(manager, commands, outcomes);
      const appended = this.writer.appendToFeeds(manager, group);
      pipeline.also(appended);
      return { group, outcomes, appended };
    };
    const { appended, ...committed } = await Pipeline.transaction(this.connection.dataSource, work, tracer);
    return { ...committed, feedEntries: await appended };
  }

  /** Serves the claims of a group. @returns ids of the assigned runs */
  async #serveClaims(
    manager: EntityManager,
    commands: readonly PendingCommand[],
    outcomes: CommandOutcome<Result>[],
    { now, countDelta }: RunGroup,
  ): Promise<ReadonlySet<string>> {
    const claims = commands.flatMap((pending, at) =>
      pending.kind === 'claim' ? [{ at, claim: pending.claim }] : [],
    );
    const assigned = new Set<string>();
    if (claims.length === 0) return assigned;
    const served = await this.allocator.serve(
      manager,
      claims.map(({ claim }) => claim),
      now,
    );
    for (const [i, { at }] of claims.entries()) {
      const outcome = served[i];
      if (!outcome) continue;
      outcomes[at] = { value: outcome };
      for (const { run } of outcome.runs) assigned.add(run.id);
      if (outcome.kind === 'served') countDelta.move('PENDING', 'ASSIGNED', outcome.runs.length);
    }
    return assigned;
  }

  /** Adds views of runs to the effects of replays and of changes that want one. */
  async #addViews(
    manager: EntityManager,
    commands: readonly PendingCommand[],
    outcomes: CommandOutcome<Result>[],
  ): Promise<void> {
    const wanted = outcomes.flatMap((outcome, at) => {
      const pending = commands[at];
      if (!('value' in outcome) || 'kind' in outcome.value || outcome.value.view) return [];
      if (pending?.kind === 'change' && !pending.wantsView) return [];
      const effect = outcome.value;
      return [{ at, effect, runId: 'run' in effect ? effect.run.id : effect.replayOf }];
    });
    if (wanted.length === 0) return;
    const views = await this.views.read(manager, [...new Set(wanted.map(({ runId }) => runId))]);
    for (const { at, effect, runId } of wanted) {
      outcomes[at] = { value: { ...effect, view: views.get(runId) } };
    }
  }
}

function effectOf(result: Result): Effect {
  if ('kind' in result) throw new Error('the journal returned the result of a claim to another command');
  return result;
}
