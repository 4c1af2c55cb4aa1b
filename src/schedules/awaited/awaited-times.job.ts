import { Injectable } from '@nestjs/common';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { type JobRun, ScheduledJob } from '../../common/scheduling/scheduled-job.js';
import { DEPENDENCY_LEDGER, type MadeParent } from '../../groups/ends/dependency.repository.js';
import { OWNER } from '../../groups/members/array-members.js';
import { AT_ONCE, DEPENDENCIES, GROUP_MEMBERS } from '../../groups/members/groups.job.js';
import type { BatchChange } from '../../runs/journal/command.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { AwaitedTimeRepository, type FoundTime } from './awaited-time.repository.js';

export const AWAITED_TIMES = 'awaited_times';

const TIMES_PER_PAGE = 100;

/** Lets runs and arrays that wait for times of schedules wait for what these have made, and cancels those for which they make nothing. */
@Injectable()
export class AwaitedTimesJob {
  constructor(
    private readonly times: AwaitedTimeRepository,
    private readonly journal: RunJournal,
    private readonly scheduler: JobScheduler,
  ) {}

  @ScheduledJob({
    name: AWAITED_TIMES,
    description:
      'lets runs wait for the runs that another schedule has made for its times; also runs when times are fired, and when schedules change',
    ...AT_ONCE,
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  /** Several processes may begin the same: the journal carries out what the first does. @returns the number of dependencies */
  async runOnce(stop?: AbortSignal): Promise<number> {
    let count = 0;
    for (;;) {
      if (stop?.aborted === true) return count;
      const found = await this.times.listKnown(TIMES_PER_PAGE);
      const known = found.filter(({ inMs }) => inMs === 0);
      if (known.length === 0) {
        const [next] = found;
        if (next) this.scheduler.runWithin(AWAITED_TIMES, next.inMs);
        return count;
      }
      await this.#tell(known);
      count += known.length;
    }
  }

  async #tell(known: readonly FoundTime[]): Promise<void> {
    const made = known.flatMap(({ id, runId, groupId }): MadeParent[] => {
      const parentId = runId ?? groupId;
      return parentId === null ? [] : [{ id, parentId, isGroup: runId === null }];
    });
    const broken = known.filter(({ runId, groupId }) => runId === null && groupId === null);
    const runs = new Map(broken.flatMap((time) => (time.childRun === null ? [] : [[time.childRun, time]])));
    const arrays = new Map(
      broken.flatMap((time) => (time.childGroup === null ? [] : [[time.childGroup, time]])),
    );
    const parents = new Map<string, number>();
    for (const { parentId, isGroup } of made)
      if (!isGroup) parents.set(parentId, (parents.get(parentId) ?? 0) + 1);
    const changes: BatchChange[] = [
      ...[...parents].map(([runId, dependents]) => ({
        runId,
        command: { type: 'depend', dependents } as const,
      })),
      ...[...runs].map(([runId, time]) => ({
        runId,
        command: {
          type: 'resolve',
          met: 0,
          broken: { scheduleId: time.scheduleId, reason: whyNone(time) },
        } as const,
      })),
    ];
    const record = {
      kind: 'ends',
      ends: [],
      finished: [],
      seen: known.map(({ id, since }) => ({ id, outcome: null, since })),
      outcomes: broken.map(({ id }) => ({ id, outcome: 'broken' as const })),
      arrays: [...arrays].map(([id, time]) => ({ id, isMended: false, broken: whyNone(time) })),
      made,
    } as const;
    await this.journal.carryOut({ ledger: DEPENDENCY_LEDGER, record, changes }, OWNER);
    this.scheduler.runWithin(DEPENDENCIES, 0);
    if (arrays.size > 0) this.scheduler.runWithin(GROUP_MEMBERS, 0);
  }
}

/** Why there is nothing to wait for, for people. */
function whyNone({ scheduleId, nominalAt, isDeleted, outcome, reason }: FoundTime): string {
  if (isDeleted) return `Schedule '${scheduleId}' was deleted`;
  const none = `Schedule '${scheduleId}' has made nothing for ${nominalAt.toISOString()}`;
  if (outcome === null) return `${none}: it is no time of it, or passed in a pause`;
  return `${none}: ${outcome}${reason === null ? '' : `, ${reason}`}`;
}
