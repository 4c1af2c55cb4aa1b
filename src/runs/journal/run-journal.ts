import { Inject, Injectable } from '@nestjs/common';
import { Refusals } from '../../common/quotas/quota.js';
import { Settings } from '../../config/settings.js';
import { JournalDataSource } from '../../database/failover/reserved-connection.js';
import {
  isDatabaseUnavailable,
  isRetryable,
  isStatementGivenUp,
  violatesKey,
} from '../../database/failover/unavailable.js';
import {
  GroupCommitQueue,
  QueueFull,
  type CommandOutcome,
  type Place,
  type QueueState,
  type WaitingLimits,
} from '../group-commit/group-commit-queue.js';
import { FilesUnchecked } from '../files/reported-files.js';
import { RunFiles } from '../files/run-files.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun } from '../machine/run.js';
import { JournalOverloaded, RunNotFound, TooManyWaiting } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';
import {
  type Claim,
  type ClaimOutcome,
  type Batch,
  bytesOf,
  type ChangeOptions,
  type CommandOptions,
  type Effect,
  type PendingCommand,
  type Result,
} from './command.js';
import { GroupCommitter } from './commit-group.js';
import { CommittedGroups } from './committed-groups.js';
import { JournalMetrics } from './journal-metrics.js';
import { JournalTracing } from './journal-tracing.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

const MAX_GROUP = 200;

/** A request with more bytes does not wait in the queue of the others; neither does a batch that changes no run that claims or reports may want. */
const LARGE_BYTES = 64 * 1024;

/** Commands that end the wait of a run. */
const MAKES_CLAIMABLE: ReadonlySet<RunCommand['type']> = new Set(['resolve', 'supply', 'reopen']);

/** The settings that limit waiting commands. */
const SETTING_OF_LIMIT: Readonly<Record<keyof WaitingLimits, string>> = {
  commands: 'SERVICE_JOURNAL_WAITING',
  commandsOfOwner: 'SERVICE_JOURNAL_WAITING_PER_KEY',
  bytes: 'SERVICE_JOURNAL_WAITING_BYTES',
  bytesOfOwner: 'SERVICE_JOURNAL_WAITING_BYTES_PER_KEY',
};

export type JournalSettings = Pick<
  Settings,
  | 'journalGroupBytes'
  | 'journalWaiting'
  | 'journalWaitingPerKey'
  | 'journalWaitingBytes'
  | 'journalWaitingBytesPerKey'
>;

/**
 * All changes of runs go through the journal. It commits commands in groups, and each gets its own answer. If more
 * commands wait than a group holds, API keys are served in turn; reports of workers have a line of their own. Large
 * requests, and batches that change no run, form groups of their own, on another connection, so that they do not delay the others.
 */
@Injectable()
export class RunJournal {
  readonly #queue: GroupCommitQueue<PendingCommand, Result>;
  readonly #large: GroupCommitQueue<PendingCommand, Result>;
  readonly #createListeners = new Set<() => void>();
  #announcesFreeWorkers = false;

  constructor(
    @Inject(JournalDataSource) private readonly connections: Pick<JournalDataSource, 'dataSource'>,
    private readonly committer: GroupCommitter,
    private readonly groups: CommittedGroups,
    private readonly tracing: JournalTracing,
    private readonly metrics: JournalMetrics,
    @Inject(Settings) settings: JournalSettings,
    private readonly refusals: Refusals,
    private readonly files: RunFiles,
  ) {
    this.#queue = this.#newQueue(settings);
    this.#large = this.#newQueue(settings);
    metrics.observeQueue(this);
  }

  /** Commands that wait for a group. */
  get waiting(): number {
    return this.#queue.waiting + this.#large.waiting;
  }

  get waitingBytes(): number {
    return this.#queue.waitingBytes + this.#large.waitingBytes;
  }

  /** Creates a run or finds the earlier one. @throws IdempotencyMismatch, JournalOverloaded, TooManyWaiting, database errors */
  async create(fresh: NewRun, options: CommandOptions = {}): Promise<Effect> {
    const creation = this.#submit({ kind: 'create', fresh, ...options });
    for (const listener of this.#createListeners) listener();
    return effectOf(await creation);
  }

  /** Changes a run. @throws RunNotFound, RunRejected, IdempotencyMismatch, PrecedingEventFailed, JournalOverloaded, TooManyWaiting, database errors */
  async change(runId: string, command: RunCommand, options: ChangeOptions = {}): Promise<Effect> {
    if (!isRunId(runId)) throw new RunNotFound(runId);
    let asked = command;
    for (;;) {
      try {
        return effectOf(await this.#submit({ kind: 'change', runId, command: asked, ...options }));
      } catch (error) {
        if (!(error instanceof FilesUnchecked) || command.type !== 'event') throw error;
        asked = { ...command, left: await this.files.findLeft(runId, error.attempt, command) };
      }
    }
  }

  /**
   * Carries out a batch.
   * @returns false: another commit has done it, or its record is no longer as it was; nothing is changed
   * @throws JournalOverloaded, TooManyWaiting, database errors; nothing is changed then
   */
  async carryOut(batch: Batch, caller: NonNullable<CommandOptions['caller']>): Promise<boolean> {
    const carriedOut = this.#submit({ kind: 'batch', batch, caller });
    if (batch.changes?.some(({ command }) => MAKES_CLAIMABLE.has(command.type)) === true)
      for (const listener of this.#createListeners) listener();
    const result = await carriedOut;
    return 'kind' in result && result.kind === 'batch' && result.isDone;
  }

  /** Assigns runs to a worker. @throws JournalOverloaded, TooManyWaiting, database errors */
  async claim(claim: Claim): Promise<ClaimOutcome> {
    const result = await this.#submit({ kind: 'claim', claim });
    if ('kind' in result && result.kind !== 'batch') return result;
    throw new Error('the journal returned the result of another command to a claim');
  }

  /**
   * Calls the listener for each submitted creation, and for changes that end a wait; a claim that it submits at once is in the same group and can get the
   * run. @returns a function that unsubscribes
   */
  onCreate(listener: () => void): () => void {
    this.#createListeners.add(listener);
    return () => void this.#createListeners.delete(listener);
  }

  /** Whether it accepts commands, and if not, why. */
  get state(): QueueState {
    const { state } = this.#queue;
    return state === 'ok' && this.#large.state === 'stuck' ? 'stuck' : state;
  }

  /** Makes commits announce workers with free capacity, for strategies that consider it. */
  announceFreeWorkers(): void {
    this.#announcesFreeWorkers = true;
  }

  /** Resolves when all submitted commands are answered. */
  async idle(): Promise<void> {
    await Promise.all([this.#queue.idle(), this.#large.idle()]);
  }

  /** Resolves when the groups with claims that were begun before have ended: later ones see what is known now. */
  claimsCommitted(): Promise<void> {
    return this.#queue.committed();
  }

  #newQueue(settings: JournalSettings): GroupCommitQueue<PendingCommand, Result> {
    return new GroupCommitQueue({
      maxGroup: MAX_GROUP,
      maxGroupBytes: settings.journalGroupBytes,
      waiting: {
        commands: settings.journalWaiting,
        commandsOfOwner: settings.journalWaitingPerKey,
        bytes: settings.journalWaitingBytes,
        bytesOfOwner: settings.journalWaitingBytesPerKey,
      },
      commit: (commands, tries) => this.#commit(commands, tries),
      // A statement timeout concerns one command, not the database.
      isFatal: (error) => isDatabaseUnavailable(error) && !isStatementGivenUp(error),
      // Another process served the same claim, and the next try finds the runs that it assigned; or retention has removed a run
      // since it was read, and the next try does not find it; or a claim that read without locks waited for a run that somebody
      // holds, and the next try skips it.
      isRetryable: (error, commands, tries) =>
        isRetryable(error) ||
        violatesKey(error) ||
        (tries === 1 && isStatementGivenUp(error) && commands.some(({ kind }) => kind === 'claim')),
    });
  }

  /** Commits a group, and tells those who subscribe to committed groups. @throws errors of the database: nothing is committed then */
  async #commit(
    commands: readonly PendingCommand[],
    tries: number,
  ): Promise<readonly CommandOutcome<Result>[]> {
    const trace = this.tracing.begin(commands, tries);
    const startedAt = monotonicMs();
    try {
      const group = await this.committer.commit(this.connections.dataSource, commands, {
        announceFree: this.#announcesFreeWorkers,
        isRetry: tries > 1,
        tracer: trace?.statements,
      });
      trace?.end();
      this.groups.next({ ...group, commands, seconds: (monotonicMs() - startedAt) / 1000 });
      return group.outcomes;
    } catch (error) {
      trace?.end(error);
      this.metrics.rolledBack();
      throw error;
    }
  }

  async #submit(pending: PendingCommand): Promise<Result> {
    this.tracing.submitted(pending);
    const place = placeOf(pending);
    const queue = isLargeRequest(pending, place) ? this.#large : this.#queue;
    try {
      return await queue.submit(pending, place);
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
      this.metrics.refused(error.reason);
      const setting = error.limit && SETTING_OF_LIMIT[error.limit];
      if (setting !== undefined) this.refusals.count(setting);
      throw error.reason === 'share' ? new TooManyWaiting(setting) : new JournalOverloaded(setting);
    }
  }
}

/** Claims, and the changes that workers and the service itself make, are reports. */
function placeOf(pending: PendingCommand): Place {
  const caller = pending.kind === 'claim' ? pending.claim.caller : pending.caller;
  return {
    line: isReport(pending) ? 'reports' : 'requests',
    owner: caller?.id,
    bytes: bytesOf(pending),
  };
}

function isReport(pending: PendingCommand): boolean {
  // Batches wait among the requests of their key, an admin's too.
  if (pending.kind !== 'change') return pending.kind === 'claim';
  const { caller } = pending;
  return caller === undefined || caller.scopes.has('worker') || caller.scopes.has('admin');
}

/** Whether it may be carried out after later commands: a change that follows another one of its request may not. */
function isLargeRequest(pending: PendingCommand, { line, bytes }: Place): boolean {
  if (line === 'reports' || (pending.kind === 'change' && pending.hasPrecedingFailed)) return false;
  if (pending.kind !== 'batch') return bytes > LARGE_BYTES;
  const { changes = [], isWithClaims = false } = pending.batch;
  return !isWithClaims && (bytes > LARGE_BYTES || changes.length === 0);
}

function effectOf(result: Result): Effect {
  if ('kind' in result)
    throw new Error('the journal returned the result of a claim or a batch to another command');
  return result;
}
