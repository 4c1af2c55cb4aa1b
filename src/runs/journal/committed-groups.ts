import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Subject } from 'rxjs';
import { toCommittedEvent, type CommittedEvent } from '../events/committed-event.js';
import type { CommandOutcome } from '../group-commit/group-commit-queue.js';
import type { EndedAttempt } from '../machine/run.js';
import type { PendingCommand, Result } from './command.js';
import type { Changes } from './decide-group.js';
import type { GroupWork } from '../storage/groups.js';

/** A group after its commit. */
export interface CommittedGroup {
  readonly commands: readonly PendingCommand[];
  /** One per command, in order. */
  readonly outcomes: readonly CommandOutcome<Result>[];
  readonly changes: Changes;
  readonly groupWork: GroupWork;
  /** By topic, the position of its last entry that the group appended; none if feeds are off. */
  readonly heads: ReadonlyMap<string, number>;
  /** Epoch of the feeds before the group began; null: there is none. */
  readonly epoch: string | null;
  /** Duration of the transaction in seconds. */
  readonly seconds: number;
}

/**
 * Each group that the journal of this process commits, before its commands are answered. A subscriber cannot undo the commit: what it
 * throws is logged.
 */
@Injectable()
export class CommittedGroups extends Subject<CommittedGroup> implements OnApplicationShutdown {
  onApplicationShutdown(): void {
    this.complete();
  }
}

/** The recorded events, in the order of the commands. */
export function committedEventsOf({ entries, endedAttempts, after }: Changes): CommittedEvent[] {
  return entries.flatMap((entry) => {
    const run = after.get(entry.runId);
    if (!run) return [];
    const isOfEntry = ({ runId, attempt }: EndedAttempt): boolean =>
      runId === entry.runId && attempt === entry.attempt;
    const { workerId } = (entry.attempt !== run.attempt && endedAttempts.find(isOfEntry)) || run;
    return [toCommittedEvent(entry, { topic: run.topic, workerId })];
  });
}
