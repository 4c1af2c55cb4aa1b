import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { FeedRepository } from '../../feed/feed.repository.js';
import { AttemptRepository } from '../attempt.repository.js';
import { EventRepository } from '../event.repository.js';
import { QueueRepository } from '../queue.repository.js';
import type { Run } from '../run-machine/run.js';
import { RunRepository, type AssignedRun } from '../run.repository.js';
import type { RunGroup } from './run-group.js';

/** Reads and writes what a group of commands needs, with a number of statements that does not depend on its size. */
@Injectable()
export class JournalStore {
  constructor(
    private readonly runs: RunRepository,
    private readonly attempts: AttemptRepository,
    private readonly events: EventRepository,
    private readonly queue: QueueRepository,
    private readonly feed: FeedRepository,
  ) {}

  /** Locks runs by id; never waits in a circle with another group. */
  async lock(manager: EntityManager, ids: ReadonlySet<string>): Promise<Run[]> {
    return ids.size === 0 ? [] : this.runs.lock(manager, [...ids]);
  }

  /** Writes runs, attempts, timelines and queue of a group; the feed comes last, by `mirror`. */
  async write(manager: EntityManager, group: RunGroup): Promise<void> {
    const { created, changed, entries, endedAttempts, toEnqueue, toDequeue } = group;
    if (created.length > 0) await this.runs.insert(manager, created);
    if (endedAttempts.length > 0) await this.attempts.insert(manager, endedAttempts);
    if (changed.length > 0) await this.runs.update(manager, changed);
    if (entries.length > 0) await this.events.append(manager, entries);
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
  async mirror(manager: EntityManager, group: RunGroup): Promise<void> {
    const { feedEntries } = group;
    if (feedEntries.length > 0) await this.feed.append(manager, feedEntries);
  }
}
