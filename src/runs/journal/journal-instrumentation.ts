import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { Subject } from 'rxjs';
import type { StatementTracer } from '../../database/statement-tracer.js';
import type { CommittedEvent } from '../events/committed-event.js';
import type { MemberOutcome } from './group-commit-queue.js';
import type { PendingCommand, Result } from './pending-command.js';
import { JournalMetrics } from './journal-metrics.js';
import { JournalTracer } from './journal-tracer.js';
import type { RunGroup } from './run-group.js';

/** What a group came to. */
export interface Committed {
  readonly outcomes: readonly MemberOutcome<Result>[];
  readonly group: RunGroup;
  /** Entries appended to feeds, known once the transaction is over. */
  readonly mirrored: Promise<number>;
}

/** Observes commits of groups: counts and traces them, and publishes their events. */
@Injectable()
export class JournalInstrumentation implements OnApplicationShutdown {
  /** The events of each group after its commit. */
  readonly committed = new Subject<CommittedEvent>();
  private readonly logger = new Logger('RunEvents');

  constructor(
    readonly metrics: JournalMetrics,
    private readonly tracer: JournalTracer,
  ) {}

  /** Notes for which request a member is handed in. */
  note(member: PendingCommand): void {
    this.tracer.note(member);
  }

  /**
   * Observes one try to commit a group. Only a group that is committed is counted and published.
   * @param tries 1 for the first
   * @param commit is given what traces its statements; undefined when the group is not traced
   */
  async commit(
    members: readonly PendingCommand[],
    tries: number,
    commit: (statements?: StatementTracer) => Promise<Committed>,
  ): Promise<readonly MemberOutcome<Result>[]> {
    const { outcomes, group, mirrored } = await this.tracer
      .trace(members, tries, commit)
      .catch((error: unknown) => {
        this.metrics.rolledBack();
        throw error;
      });
    this.metrics.runs.committed({ counts: group.counts, members, outcomes, feedEntries: await mirrored });
    this.#publish(group);
    return outcomes;
  }

  onApplicationShutdown(): void {
    this.committed.complete();
  }

  /** Never throws: a group that is committed must not be taken for one that failed. */
  #publish(group: RunGroup): void {
    if (!this.committed.observed) return;
    try {
      for (const event of group.committedEvents) this.committed.next(event);
    } catch (error) {
      this.logger.error('Events were not published', error instanceof Error ? error.stack : String(error));
    }
  }
}
