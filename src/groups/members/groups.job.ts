import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { type JobRun, MINUTE, SECOND, ScheduledJob } from '../../common/scheduling/scheduled-job.js';
import { paced } from '../../database/sql/in-batches.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { CommittedGroups } from '../../runs/journal/committed-groups.js';
import { GroupRepository } from '../group.repository.js';
import { ArrayMembers } from './array-members.js';

export const GROUP_MEMBERS = 'group_members';

/** The job that tells those that wait of ends. */
export const DEPENDENCIES = 'dependencies';

/** After this time in milliseconds other processes look whether the one that had the work has died. */
export const TAKEN_OVER_MS = 2_000;

/** For work that the process does at once which has committed the reason for it: regular runs find what was left by one that died. */
export const AT_ONCE = {
  everyMs: 5 * MINUTE,
  jitterMs: 0,
  firstDelayMs: 0,
  level: 'debug',
  retry: { firstMs: 100, longestMs: 10 * SECOND },
} as const;

/** So many times as long as a batch takes is the pause after it, in which the database serves others. */
const REST = 1.5;

/** Makes members of arrays, and cancels those of stopped groups. */
@Injectable()
export class GroupsJob implements OnModuleInit, OnModuleDestroy {
  #subscription: Subscription | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly groups: GroupRepository,
    private readonly members: ArrayMembers,
    private readonly committed: CommittedGroups,
    private readonly notices: CommitNotices,
    private readonly scheduler: JobScheduler,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices.subscribe((notice) => {
      if (notice?.groupWork !== undefined) this.scheduler.runWithin(GROUP_MEMBERS, TAKEN_OVER_MS);
    });
    this.#subscription = this.committed.subscribe(({ groupWork }) => {
      if (groupWork.isDue) this.scheduler.runWithin(GROUP_MEMBERS, 0);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
    this.#subscription?.unsubscribe();
  }

  @ScheduledJob({
    name: GROUP_MEMBERS,
    description:
      'makes the next members of arrays, and cancels those of stopped groups; also runs when there are any',
    ...AT_ONCE,
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  /** Several processes share the groups that are due; one that a process leaves unfinished is due again some seconds later. @returns the number of runs */
  async runOnce(stop?: AbortSignal): Promise<number> {
    let count = 0;
    for (;;) {
      if (stop?.aborted === true) return count;
      const done = await paced(stop, () => this.#advanceOne(), REST);
      if (done === null) break;
      count += done;
      // A group that is stopped before it has members ends with it, in no commit of the journal.
      if (done === 0) this.scheduler.runWithin(DEPENDENCIES, 0);
    }
    const inMs = await this.groups.nextDueInMs();
    if (inMs !== null) this.scheduler.runWithin(GROUP_MEMBERS, inMs);
    return count;
  }

  /** @returns the number of its runs; null: none is due */
  async #advanceOne(): Promise<number | null> {
    const group = await this.groups.takeDue();
    return group === null ? null : this.members.advance(group);
  }
}
