import { Inject, Injectable, Logger } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { shortRunId, type CommitNotice } from '../../database/notices/commit-notice.js';
import { Pipeline } from '../../database/sql/pipeline.js';
import type { StatementTracer } from '../../database/sql/statement-tracer.js';
import { FeedTails } from '../../feed/cache/feed-tails.js';
import { FeedRepository } from '../../feed/feed.repository.js';
import { insertAuditRecords } from '../audit/audit.repository.js';
import { addRunCounts, announceCommit } from '../counts/run-counts.repository.js';
import { EventRepository } from '../events/event.repository.js';
import type { CommandOutcome } from '../group-commit/group-commit-queue.js';
import { IdempotencyLedger, IdempotencyRepository } from '../idempotency/idempotency.repository.js';
import { claimablePart, type ClaimableRun } from '../queue/lane.js';
import { QueueRepository } from '../queue/queue.repository.js';
import { newId } from '../machine/new-id.js';
import type { Policy, RunLimits } from '../machine/run-command.js';
import { lockKeys, NO_OPEN_RUNS, readOpenRuns } from '../storage/open-runs.js';
import { insertAttempts } from '../storage/ended-attempts.js';
import {
  countInGroups,
  insertDependencies,
  insertEnds,
  NO_GROUP_WORK,
  readGroups,
  type FoundGroup,
} from '../storage/groups.js';
import { writeFiles } from '../storage/artifacts.js';
import { RunFiles } from '../files/run-files.js';
import { RunRepository } from '../storage/run.repository.js';
import { bytesOfGroup, RunViews } from '../storage/run-views.js';
import { putTimers, removeTimers } from '../storage/run-timers.js';
import {
  type Claim,
  type ClaimOutcome,
  keyOf,
  parentsOf,
  type PendingCommand,
  type Result,
  runsOf,
} from './command.js';
import { byLedger, lockRecords } from './batch-records.js';
import { CommittedGroups, type CommittedGroup } from './committed-groups.js';
import { feedEventsOf } from './feed-events.js';
import { decideGroup, type Changes, type GroupStart } from './decide-group.js';
import { haveReady } from './dependents.js';
import { wantedKeys } from './key-limits.js';

export interface CommitOptions {
  /** Whether to announce workers with free capacity. */
  readonly announceFree: boolean;
  /**
   * Whether the group is carried out again, because another one had just written one of its runs: then runs are locked before they are
   * read.
   */
  readonly isRetry: boolean;
  readonly tracer: StatementTracer | undefined;
}

/** What the claims of a group got. */
interface Served {
  /** Ids of the assigned runs. */
  readonly assigned: ReadonlySet<string>;
  /** Runs that became claimable because the claims changed their keys. */
  readonly admitted: readonly ClaimableRun[];
}

/** How the claims of a group are served. */
export interface ClaimTerms {
  /** The time of the group. */
  readonly now: Date;
  readonly policy: Policy;
  /** As in {@link CommitOptions}. */
  readonly isRetry: boolean;
}

/** Serves the claims of a group, in its transaction. */
export interface GroupClaims {
  /** @returns one outcome per claim, in order, and runs that became claimable because the claims changed their keys */
  serve(
    tx: EntityManager,
    claims: readonly Claim[],
    terms: ClaimTerms,
  ): Promise<{ readonly outcomes: readonly ClaimOutcome[]; readonly admitted: readonly ClaimableRun[] }>;
}

/** The tables that every group writes. */
@Injectable()
export class GroupTables {
  constructor(
    readonly runs: RunRepository,
    readonly events: EventRepository,
    readonly queue: QueueRepository,
    readonly idempotency: IdempotencyRepository,
    readonly feed: FeedRepository,
  ) {}
}

/** Carries out a group of commands as one transaction, with a number of statements that does not depend on its size. */
@Injectable()
export class GroupCommitter {
  private readonly logger = new Logger('RunJournal');
  private readonly policy: Policy;
  #claims: GroupClaims | undefined;

  constructor(
    @Inject(Settings) limits: RunLimits,
    private readonly tables: GroupTables,
    private readonly views: RunViews,
    private readonly feeds: FeedTails,
    private readonly files: RunFiles,
    groups: CommittedGroups,
  ) {
    this.policy = { limits, newId, random: Math.random };
    groups.subscribe((group) => this.#addToCache(group));
  }

  /** Sets what serves claims, before the first one is submitted. */
  serveClaimsBy(claims: GroupClaims): void {
    this.#claims = claims;
  }

  /**
   * The state machine decides the commands in order; claims are served after the others, so they see the resulting queue.
   * @throws errors of the database: then nothing is committed
   */
  async commit(
    source: DataSource,
    commands: readonly PendingCommand[],
    options: CommitOptions,
  ): Promise<Omit<CommittedGroup, 'commands' | 'seconds'>> {
    const { epoch } = this.feeds;
    const { heads, ...group } = await Pipeline.transaction(
      source,
      (tx, pipeline) => this.#carryOut(tx, pipeline, commands, options),
      options.tracer,
    );
    return { ...group, heads: await heads, epoch };
  }

  /** The statements of a group, in their order. */
  async #carryOut(
    tx: EntityManager,
    pipeline: Pipeline,
    commands: readonly PendingCommand[],
    { announceFree, isRetry }: CommitOptions,
  ) {
    const start = await this.#begin(tx, pipeline, commands, isRetry);
    const { changes, outcomes } = decideGroup(commands, start, this.policy, (run, command) =>
      this.files.conceal(run, command),
    );
    const rowsWritten = this.#write(tx, changes, { unusedKeys: start.keys.unused, isRetry });
    pipeline.also(rowsWritten);
    // These wait for results of their own statements, and the commit is not to be sent before what they send then.
    if (changes.batches.length > 0 || changes.leavings.length > 0) await rowsWritten;
    const { claimable, written } = await this.tables.queue.write(tx, changes.queue);
    pipeline.also(written);
    const served = await this.#serveClaims(tx, commands, outcomes, changes, isRetry);
    await this.#addViews(tx, commands, outcomes);
    const counted = changes.groups.isEmpty
      ? NO_GROUP_WORK
      : await countInGroups(tx, changes.groups, changes.now);
    const groupWork = {
      ...counted,
      hasEnds: counted.hasEnds || changes.ends.length > 0 || haveReady(changes),
    };
    const notice = noticeOf(changes, served, claimable, announceFree);
    const work = groupWork.isDue || groupWork.hasEnds ? ({ groupWork: true } as const) : {};
    const heads = this.#announce(tx, changes, { ...notice, ...work });
    pipeline.also(heads);
    return { changes, outcomes, heads, groupWork };
  }

  /** Registers the idempotency keys of a group, locks the records of its batches and reads its runs, and those that limits concern. */
  async #begin(
    tx: EntityManager,
    pipeline: Pipeline,
    commands: readonly PendingCommand[],
    isRetry: boolean,
  ): Promise<GroupStart> {
    const keys = commands.flatMap(keyOf);
    const batches = commands.flatMap((pending) => (pending.kind === 'batch' ? [pending.batch] : []));
    const runIds = new Set(commands.flatMap(runsOf));
    const readsLabels = commands.some(isOnLabels);
    const limited = wantedKeys(commands);
    const groupIds = new Set(commands.flatMap((pending) => parentsOf(pending, true)));
    const [registered, due, , , found, open, groups, startedAt] = await Promise.all([
      keys.length > 0 ? this.tables.idempotency.register(tx, keys) : new Map(),
      batches.length > 0 ? lockRecords(tx, batches) : new Set<object>(),
      limited.length > 0 && lockKeys(tx, limited, [...runIds], isRetry),
      isRetry && limited.length === 0 && runIds.size > 0 && this.tables.runs.lock(tx, [...runIds]),
      runIds.size > 0 ? this.tables.runs.find(tx, [...runIds], { readsLabels }) : [],
      limited.length > 0 ? readOpenRuns(tx, limited, runIds.size) : NO_OPEN_RUNS,
      groupIds.size > 0 ? readGroups(tx, [...groupIds]) : new Map<string, FoundGroup>(),
      pipeline.startedAt,
    ]);
    const times = [startedAt, open.readAt ?? startedAt, ...found.map(({ readAt }) => readAt)];
    const now = new Date(Math.max(...times.map((time) => time.getTime())));
    return { keys: new IdempotencyLedger(registered), due, found, open, groups, now };
  }

  /**
   * In this order: attempts and audit records copy outputs from rows of runs that `update` overwrites, and the ids of ends are taken
   * while their runs are locked. To insert an attempt waits
   * for another group that ends it, which must not wait for runs of this group then: those are locked before it.
   */
  async #write(
    tx: EntityManager,
    changes: Changes,
    { unusedKeys, isRetry }: { readonly unusedKeys: readonly string[]; readonly isRetry: boolean },
  ): Promise<void> {
    const { created, before, after, changedFields, executions, entries } = changes;
    const { labelled, endedAttempts, auditRecords, dependencies, timers, queue } = changes;
    const changed = [...after.values()]
      .filter(({ id }) => before.has(id))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const removed = timers.flatMap(({ runId, dueAt }) => (dueAt === null ? [runId] : []));
    const put = timers.flatMap(({ runId, dueAt }) => (dueAt === null ? [] : [{ runId, dueAt }]));
    await Promise.all([
      unusedKeys.length > 0 && this.tables.idempotency.forget(tx, unusedKeys),
      created.length > 0 && this.tables.runs.insert(tx, created, queue.isFilledByInsertion),
      endedAttempts.length > 0 && !isRetry && this.tables.runs.lock(tx, [...after.keys()]),
      endedAttempts.length > 0 && insertAttempts(tx, endedAttempts),
      auditRecords.length > 0 && insertAuditRecords(tx, auditRecords),
      changed.length > 0 && this.tables.runs.update(tx, changed, before, changedFields, executions),
      labelled.length > 0 && this.tables.runs.label(tx, labelled),
      entries.length > 0 && this.tables.events.append(tx, entries),
      dependencies.length > 0 && insertDependencies(tx, dependencies),
      writeRecordsAndEnds(tx, changes),
      writeFiles(tx, changes),
      removed.length > 0 && removeTimers(tx, removed),
      put.length > 0 && putTimers(tx, put),
    ]);
  }

  /** Serves the claims of a group and writes their outcomes. */
  async #serveClaims(
    tx: EntityManager,
    commands: readonly PendingCommand[],
    outcomes: CommandOutcome<Result>[],
    { now, counts, groups }: Changes,
    isRetry: boolean,
  ): Promise<Served> {
    const claims = commands.flatMap((pending, at) =>
      pending.kind === 'claim' ? [{ at, claim: pending.claim }] : [],
    );
    const assigned = new Set<string>();
    if (claims.length === 0) return { assigned, admitted: [] };
    if (this.#claims === undefined) throw new Error('a claim was submitted, but nothing serves claims');
    const { outcomes: served, admitted } = await this.#claims.serve(
      tx,
      claims.map(({ claim }) => claim),
      { now, policy: this.policy, isRetry },
    );
    for (const [i, { at }] of claims.entries()) {
      const outcome = served[i];
      if (!outcome) continue;
      outcomes[at] = { value: outcome };
      for (const { run } of outcome.runs) assigned.add(run.id);
      if (outcome.kind !== 'served') continue;
      counts.move('PENDING', 'ASSIGNED', outcome.runs.length);
      for (const { run } of outcome.runs)
        if (run.groupId !== null) groups.move(run.groupId, 'PENDING', 'ASSIGNED');
    }
    return { assigned, admitted };
  }

  /**
   * Adds to the counts, appends to feeds and sends the notice, as the last statements: they lock rows of topics.
   * @returns by topic, the position of its last entry
   */
  async #announce(
    tx: EntityManager,
    { feedEntries, counts, now }: Changes,
    notice: CommitNotice,
  ): Promise<ReadonlyMap<string, number>> {
    const { feed } = this.tables;
    if (feedEntries.length === 0 || !feed.isEnabled) {
      await announceCommit(tx, counts, now, notice);
      return new Map();
    }
    const [, appended] = await Promise.all([
      addRunCounts(tx, counts, now),
      feed.append(tx, feedEntries, notice),
    ]);
    return appended;
  }

  /** Adds views of runs, up to a number of bytes, to the effects of replays and of changes that want one. */
  async #addViews(
    tx: EntityManager,
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
    const ids = new Set(wanted.map(({ runId }) => runId));
    const views = await this.views.read(tx, [...ids], bytesOfGroup(this.views.maxBytes));
    for (const { at, effect, runId } of wanted) {
      outcomes[at] = { value: { ...effect, view: views.get(runId) } };
    }
  }

  /** Adds the events of a group to the cache of feeds. */
  #addToCache({ epoch, heads, changes }: CommittedGroup): void {
    try {
      this.feeds.append(epoch, heads, (topics) => feedEventsOf(changes, topics));
    } catch (error) {
      const stack = error instanceof Error ? error.stack : String(error);
      this.logger.error('committed events could not be added to the cache of feeds', stack);
      for (const topic of heads.keys()) this.feeds.forget(topic);
    }
  }
}

/** The ends come last: what the records let wait, waits for them. */
async function writeRecordsAndEnds(tx: EntityManager, { batches, ends, now }: Changes): Promise<void> {
  if (batches.length > 0)
    await Promise.all([...byLedger(batches)].map(([ledger, records]) => ledger.write(tx, records, now)));
  if (ends.length > 0) await insertEnds(tx, ends);
}

function isOnLabels(pending: PendingCommand): boolean {
  if (pending.kind === 'batch')
    return pending.batch.changes?.some(({ command }) => command.type === 'label') ?? false;
  return pending.kind === 'change' && pending.command.type === 'label';
}

/** What the commit of a group tells every process. @param claimable runs that claims may read now */
function noticeOf(
  { now, after, groups, timers, queue, freedWorkers, deprivedWorkers }: Changes,
  { assigned, admitted }: Served,
  claimable: readonly ClaimableRun[],
  announceFree: boolean,
): CommitNotice {
  const left = [...claimable, ...admitted].filter(({ id }) => !assigned.has(id));
  // Workers that lose a run other than by reporting its end wait for that, whatever the strategy.
  const freed = announceFree ? freedWorkers : deprivedWorkers;
  const dueAt = timers.flatMap((timer) => (timer.dueAt === null ? [] : [timer.dueAt.getTime()]));
  return {
    ...(left.length > 0 && { queue: claimablePart(left) }),
    ...(dueAt.length > 0 && { timerInMs: Math.max(0, Math.min(...dueAt) - now.getTime()) }),
    runs: [...after.keys(), ...assigned, ...groups.list.map(({ id }) => id)].map(shortRunId),
    freedWorkers: freed,
    slotWorkers: queue.slots.map(({ workerId }) => workerId),
  };
}
