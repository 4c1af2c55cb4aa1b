import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { IdempotencyRepository, type IdempotencyClaim } from '../idempotency.repository.js';
import { QueueRepository } from '../queue.repository.js';
import type { Run } from '../run-machine/run.js';
import { RunRepository, type AssignedRun } from '../run.repository.js';
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
  ) {}

  /** Registers idempotency keys, before anything is locked; answers, by scope, the claim that counts. */
  async register(
    manager: EntityManager,
    claims: readonly IdempotencyClaim[],
  ): Promise<ReadonlyMap<string, IdempotencyClaim>> {
    return claims.length === 0 ? new Map() : this.idempotency.register(manager, claims);
  }

  /** The claim that counts for an idempotency key, or null. */
  findClaim(manager: EntityManager, scope: string): Promise<IdempotencyClaim | null> {
    return this.idempotency.find(manager, scope);
  }

  /** Locks runs by id; never waits in a circle with another group. */
  async lock(manager: EntityManager, ids: ReadonlySet<string>): Promise<Run[]> {
    return ids.size === 0 ? [] : this.runs.lock(manager, [...ids]);
  }

  /** Writes runs, history and queue of a group; the feed comes last, by `mirror`. */
  async write(manager: EntityManager, group: RunGroup): Promise<void> {
    const { created, changed, toEnqueue, toDequeue } = group;
    if (created.length > 0) await this.runs.insert(manager, created);
    await this.history.keep(manager, group);
    if (changed.length > 0) await this.runs.update(manager, changed);
    await this.history.append(manager, group);
    if (toDequeue.length > 0) await this.queue.remove(manager, toDequeue);
    if (toEnqueue.length > 0) await this.queue.put(manager, toEnqueue);
  }

  /** Locks the free head of the queue. */
  lockQueueHead(manager: EntityManager, limit: number): Promise<Run[]> {
    return this.runs.lockQueueHead(manager, limit);
  }

  /** Writes assignments of runs that the caller has locked. */
  async assign(manager: EntityManager, assigned: readonly Run[]): Promise<AssignedRun[]> {
    if (assigned.length === 0) return [];
    await this.queue.remove(
      manager,
      assigned.map(({ id }) => id),
    );
    return this.runs.assign(manager, assigned);
  }

  /** Mirrors a group's timeline entries to their feeds: the last statement of the transaction. */
  mirror(manager: EntityManager, group: RunGroup): Promise<void> {
    return this.history.mirror(manager, group);
  }
}
