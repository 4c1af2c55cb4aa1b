import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { DeadlineRepository } from '../timeouts/deadline.repository.js';
import {
  IdempotencyRepository,
  type IdempotencyKey,
  type RegisteredKey,
} from '../idempotency/idempotency.repository.js';
import { QueueRepository } from '../queue/queue.repository.js';
import type { Run } from '../machine/run.js';
import { RunRepository } from '../storage/run.repository.js';
import type { RunGroup } from './run-group.js';
import { RunHistory } from './run-history.js';

/** Reads and writes what a group of commands needs, with a number of statements that does not depend on its size. */
@Injectable()
export class JournalStore {
  constructor(
    private readonly runs: RunRepository,
    private readonly queue: QueueRepository,
    private readonly history: RunHistory,
    private readonly idempotency: IdempotencyRepository,
    private readonly deadlines: DeadlineRepository,
  ) {}

  /** Registers idempotency keys, before anything is locked; answers, by scope, the entry that counts. */
  async register(
    manager: EntityManager,
    keys: readonly IdempotencyKey[],
  ): Promise<ReadonlyMap<string, RegisteredKey>> {
    return keys.length === 0 ? new Map() : this.idempotency.register(manager, keys);
  }

  /** Gives keys free again whose requests were refused. */
  async forget(manager: EntityManager, scopes: readonly string[]): Promise<void> {
    if (scopes.length > 0) await this.idempotency.forget(manager, scopes);
  }

  /** Locks runs by id; never waits in a circle with another group. */
  async lock(manager: EntityManager, ids: ReadonlySet<string>): Promise<Run[]> {
    return ids.size === 0 ? [] : this.runs.lock(manager, [...ids]);
  }

  /**
   * Writes runs, history, queue and deadlines of a group, all statements handed in at once and carried out in order; the
   * feed comes last, by `mirror`.
   */
  async write(manager: EntityManager, group: RunGroup): Promise<void> {
    const { created, changed, toEnqueue, toDequeue, deadlines } = group;
    const over = deadlines.filter(({ dueAt }) => dueAt === null).map(({ runId }) => runId);
    const due = deadlines.flatMap(({ runId, dueAt }) => (dueAt === null ? [] : [{ runId, dueAt }]));
    await Promise.all([
      created.length > 0 && this.runs.insert(manager, created),
      this.history.keep(manager, group),
      changed.length > 0 && this.runs.update(manager, changed),
      this.history.append(manager, group),
      toDequeue.length > 0 && this.queue.remove(manager, toDequeue),
      toEnqueue.length > 0 && this.queue.put(manager, toEnqueue),
      over.length > 0 && this.deadlines.remove(manager, over),
      due.length > 0 && this.deadlines.put(manager, due),
    ]);
  }

  /** Has the commit tell every process of the group's claimable runs, if any are left. @param given ids of those handed out */
  async announce(manager: EntityManager, { toEnqueue }: RunGroup, given: ReadonlySet<string>): Promise<void> {
    const claimable = toEnqueue.filter(({ id }) => !given.has(id)).length;
    if (claimable > 0) await this.queue.announce(manager, toEnqueue, claimable);
  }

  /** Has the commit tell every process of workers that have got room, if there are any. */
  async announceRoom(manager: EntityManager, workerIds: readonly string[]): Promise<void> {
    if (workerIds.length > 0) await this.queue.announceRoom(manager, workerIds);
  }

  /** Counts what the group did, once its claims have been served. */
  count(manager: EntityManager, group: RunGroup): Promise<void> {
    return this.history.count(manager, group);
  }

  /** Mirrors a group's timeline entries to their feeds: the last statement of the transaction. Answers how many. */
  mirror(manager: EntityManager, group: RunGroup): Promise<number> {
    return this.history.mirror(manager, group);
  }
}
