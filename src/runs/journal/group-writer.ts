import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { currentTime } from '../../database/sql/sql.js';
import { FeedRepository, type FeedAppend } from '../../feed/feed.repository.js';
import { insertAuditRecords } from '../audit/audit.repository.js';
import { addRunCounts } from '../counts/run-counts.repository.js';
import { EventRepository } from '../events/event.repository.js';
import { IdempotencyRepository } from '../idempotency/idempotency.repository.js';
import type { LockedRun } from '../machine/run.js';
import type { AdmittedRun } from '../queue/concurrency-keys.js';
import { QueueRepository } from '../queue/queue.repository.js';
import { RunRepository } from '../storage/run.repository.js';
import { putTimers, removeTimers } from '../timeouts/run-timers.js';
import { IdempotencyLedger } from './idempotency-ledger.js';
import { keyOf, type PendingCommand } from './pending-command.js';
import type { RunGroup } from './run-group.js';

export interface GroupStart {
  readonly keys: IdempotencyLedger;
  readonly locked: readonly LockedRun[];
  readonly now: Date;
}

/** Reads and writes the rows of a group, with a number of statements that does not depend on the size of the group. */
@Injectable()
export class GroupWriter {
  constructor(
    private readonly runs: RunRepository,
    private readonly queue: QueueRepository,
    private readonly events: EventRepository,
    private readonly idempotency: IdempotencyRepository,
    private readonly feed: FeedRepository,
  ) {}

  /** Registers the idempotency keys of a group and locks its runs. Returns the time of the group, taken after the locks. */
  async begin(manager: EntityManager, commands: readonly PendingCommand[]): Promise<GroupStart> {
    const keys = commands.flatMap(keyOf);
    const runIds = new Set(commands.flatMap((pending) => (pending.kind === 'change' ? [pending.runId] : [])));
    const [registered, locked, now] = await Promise.all([
      keys.length > 0 ? this.idempotency.register(manager, keys) : new Map(),
      runIds.size > 0 ? this.runs.lock(manager, [...runIds]) : [],
      currentTime(manager),
    ]);
    return { keys: new IdempotencyLedger(registered), locked, now };
  }

  /**
   * Writes what the group decided, before its claims are served. The statements run in this order: attempts and audit
   * records copy outputs from rows of runs that `update` overwrites.
   */
  async write(manager: EntityManager, group: RunGroup, unusedKeys: readonly string[]): Promise<void> {
    const { created, endedAttempts, auditRecords, changed, entries, toDequeue, toEnqueue, timers } = group;
    const removed = timers.flatMap(({ runId, dueAt }) => (dueAt === null ? [runId] : []));
    const put = timers.flatMap(({ runId, dueAt }) => (dueAt === null ? [] : [{ runId, dueAt }]));
    await Promise.all([
      unusedKeys.length > 0 && this.idempotency.forget(manager, unusedKeys),
      created.length > 0 && this.runs.insert(manager, created),
      endedAttempts.length > 0 && this.runs.insertAttempts(manager, endedAttempts),
      auditRecords.length > 0 && insertAuditRecords(manager, auditRecords),
      changed.length > 0 && this.runs.update(manager, changed, group.changedFields),
      entries.length > 0 && this.events.append(manager, entries),
      toDequeue.length > 0 && this.queue.remove(manager, toDequeue),
      toEnqueue.length > 0 && this.queue.put(manager, toEnqueue),
      removed.length > 0 && removeTimers(manager, removed),
      put.length > 0 && putTimers(manager, put),
    ]);
  }

  /** Writes what the group changes in the restricted queue. @returns runs that claims may read now */
  async writeRestricted(manager: EntityManager, { restricted }: RunGroup): Promise<readonly AdmittedRun[]> {
    return restricted ? this.queue.restricted.write(manager, restricted) : [];
  }

  /**
   * Notifies other processes and adds to the counts.
   * @param assigned ids of the runs that claims of the group got
   * @param admitted runs of the restricted queue that became claimable
   */
  async announce(
    manager: EntityManager,
    { now, toEnqueue, freedWorkers, deprivedWorkers, countDelta }: RunGroup,
    assigned: ReadonlySet<string>,
    admitted: readonly AdmittedRun[],
    announceFree: boolean,
  ): Promise<void> {
    // Workers that lose a run other than by reporting its end wait for that, whatever the strategy.
    const freed = announceFree ? freedWorkers : deprivedWorkers;
    const claimable = toEnqueue.filter(({ id }) => !assigned.has(id)).length;
    const restricted = admitted.filter(({ id }) => !assigned.has(id));
    await Promise.all([
      restricted.length > 0 && this.queue.restricted.announce(manager, restricted),
      claimable > 0 && this.queue.announce(manager, toEnqueue, claimable),
      !countDelta.isEmpty && addRunCounts(manager, countDelta, now),
      freed.length > 0 && this.queue.announceFreeWorkers(manager, freed),
    ]);
  }

  /**
   * Appends entries to feeds. Must be the last statement: it locks rows of topics.
   * @returns by topic, the position of its last entry
   */
  appendToFeeds(
    manager: EntityManager,
    entries: readonly FeedAppend[],
  ): Promise<ReadonlyMap<string, number>> {
    return this.feed.append(manager, entries);
  }
}
