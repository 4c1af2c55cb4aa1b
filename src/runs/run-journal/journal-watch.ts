import { Injectable } from '@nestjs/common';
import type { StatementTracer } from '../../database/statement-tracer.js';
import type { GroupCounts } from './group-counts.js';
import type { MemberOutcome } from './group-lane.js';
import type { Member, Result } from './journal-member.js';
import { JournalMetrics } from './journal-metrics.js';
import { JournalTracer } from './journal-tracer.js';

/** What a group came to. */
export interface Committed {
  readonly outcomes: readonly MemberOutcome<Result>[];
  readonly counts: GroupCounts;
  /** Entries appended to feeds, known once the transaction is over. */
  readonly mirrored: Promise<number>;
}

/** Looks on while groups are committed: counts what they did, and traces them. */
@Injectable()
export class JournalWatch {
  constructor(
    readonly metrics: JournalMetrics,
    private readonly tracer: JournalTracer,
  ) {}

  /** Notes for which request a member is handed in. */
  note(member: Member): void {
    this.tracer.note(member);
  }

  /**
   * Watches one try to commit a group. What it did is counted here alone, when it is there to stay.
   * @param tries 1 for the first
   * @param commit is given who traces its statements; nobody when the group is not traced
   */
  async commit(
    members: readonly Member[],
    tries: number,
    commit: (statements?: StatementTracer) => Promise<Committed>,
  ): Promise<readonly MemberOutcome<Result>[]> {
    const { outcomes, counts, mirrored } = await this.tracer
      .trace(members, tries, commit)
      .catch((error: unknown) => {
        this.metrics.rolledBack();
        throw error;
      });
    this.metrics.runs.committed({ counts, members, outcomes, feedEntries: await mirrored });
    return outcomes;
  }
}
