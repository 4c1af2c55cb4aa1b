import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { FeedRepository } from '../../feed/feed.repository.js';
import { AttemptRepository } from '../storage/attempt.repository.js';
import { AuditRepository } from '../audit/audit.repository.js';
import { EventRepository } from '../events/event.repository.js';
import { RunCountsRepository } from '../counts/run-counts.repository.js';
import type { RunGroup } from './run-group.js';

/** Writes what a group leaves behind beside its runs: ended attempts, the audit log, timelines, feeds, and the counts. */
@Injectable()
export class RunHistory {
  constructor(
    private readonly attempts: AttemptRepository,
    private readonly audit: AuditRepository,
    private readonly events: EventRepository,
    private readonly feed: FeedRepository,
    private readonly counts: RunCountsRepository,
  ) {}

  /** Keeps what the group ends or replaces; comes before the runs' rows are written over. */
  async keep(manager: EntityManager, { endedAttempts, auditRecords }: RunGroup): Promise<void> {
    await Promise.all([
      endedAttempts.length > 0 && this.attempts.insert(manager, endedAttempts),
      auditRecords.length > 0 && this.audit.insert(manager, auditRecords),
    ]);
  }

  /** Appends the group's entries to the timelines. */
  async append(manager: EntityManager, { entries }: RunGroup): Promise<void> {
    if (entries.length > 0) await this.events.append(manager, entries);
  }

  /** Counts what the group did, claims and all. */
  async count(manager: EntityManager, { tally, now }: RunGroup): Promise<void> {
    if (!tally.isEmpty) await this.counts.add(manager, tally, now);
  }

  /** Mirrors the group's entries to their feeds: the last statement of the transaction. Answers how many. */
  mirror(manager: EntityManager, { feedEntries }: RunGroup): Promise<number> {
    return this.feed.append(manager, feedEntries);
  }
}
