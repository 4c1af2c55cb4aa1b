import { Inject, Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import {
  type JobRun,
  MINUTE,
  RETENTION,
  SECOND,
  ScheduledJob,
} from '../../common/scheduling/scheduled-job.js';
import { DomainError } from '../../common/errors/domain-error.js';
import { Settings } from '../../config/settings.js';
import { isDatabaseUnavailable } from '../../database/failover/unavailable.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import { CommittedGroups } from '../../runs/journal/committed-groups.js';
import { TAKEN_OVER_MS } from '../../groups/members/groups.job.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { RunNotFound, RunRejected } from '../../runs/run.errors.js';
import { AWAITED_TIMES } from '../awaited/awaited-times.job.js';
import { ScheduleRepository } from '../schedule.repository.js';
import { failingNote, SchedulesService } from '../schedules.service.js';
import { advanceTo } from '../schedule-times.js';
import { dueTimes } from './due-times.js';
import { FiresService } from './fires.service.js';
import { timesPerCommit } from './schedule-bodies.js';
import { isHeld } from '../../runs/machine/run.js';

export const SCHEDULES = 'schedules';
export const SCHEDULED_ENDS = 'scheduled_ends';

/** Schedules that are fired together: few, so that claims and requests do not wait long for their commit. */
const SCHEDULES_PER_BATCH = 20;

/** So many times as long as a batch takes is the pause after it, in which the database serves others. */
const REST = 1.5;

/** Runs that are released together. */
const RUNS_PER_BATCH = 200;

const FIRES_PER_BATCH = 5_000;
const DAY_MS = 24 * 60 * MINUTE;

/** Fires schedules that are due by the database's clock, and follows the ends of their runs. */
@Injectable()
export class SchedulesJob implements OnModuleInit, OnModuleDestroy {
  private readonly logger = new Logger('Schedules');
  /** Schedules of which a run has ended since their failures were looked at. */
  readonly #ended = new Set<string>();
  #subscription: Subscription | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly schedules: ScheduleRepository,
    private readonly service: SchedulesService,
    private readonly fires: FiresService,
    private readonly journal: RunJournal,
    private readonly groups: CommittedGroups,
    private readonly notices: CommitNotices,
    private readonly scheduler: JobScheduler,
    @Inject(Settings) private readonly settings: Pick<Settings, 'runRetentionDays'>,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices.subscribe((notice) => {
      const inMs = notice === null ? 0 : notice.scheduleInMs;
      if (inMs !== undefined) this.scheduler.runWithin(SCHEDULES, inMs);
    });
    this.#subscription = this.groups.subscribe(({ changes: { after, created } }) => {
      let isConcerned = created.some((run) => isHeld(run) && run.waitsFor === null);
      for (const { scheduleId, finishedAt } of after.values()) {
        if (scheduleId === null || finishedAt === null) continue;
        this.#ended.add(scheduleId);
        isConcerned = true;
      }
      if (isConcerned) this.scheduler.runWithin(SCHEDULED_ENDS, 0);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
    this.#subscription?.unsubscribe();
  }

  @ScheduledJob({
    name: SCHEDULES,
    description: 'makes the runs of schedules; also runs when the next one is due',
    everyMs: 5 * MINUTE,
    jitterMs: 20,
    firstDelayMs: 0,
    level: 'debug',
    retry: { firstMs: 100, longestMs: 10 * SECOND },
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  @ScheduledJob({
    name: SCHEDULED_ENDS,
    description:
      'lets runs start that waited for another run of their schedule, and pauses schedules whose runs fail',
    everyMs: MINUTE,
    jitterMs: 20,
    level: 'debug',
    retry: { firstMs: 100, longestMs: 10 * SECOND },
  })
  runEnds({ stop }: JobRun): Promise<number> {
    return this.followEnds(stop);
  }

  @ScheduledJob({
    name: 'schedule_fire_retention',
    description: 'removes what became of times of schedules, as long ago as SERVICE_RUN_RETENTION_DAYS',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async removeOld({ now, stop }: JobRun): Promise<number> {
    const { runRetentionDays: days } = this.settings;
    if (days === 0) return 0;
    const before = new Date((await now()).getTime() - days * DAY_MS);
    return inBatches(FIRES_PER_BATCH, stop, () =>
      paced(stop, () => this.schedules.removeFiresBefore(before, FIRES_PER_BATCH)),
    );
  }

  /**
   * Fires the schedules that are due. Several processes share them; one that a process leaves unfinished is due again some seconds later.
   * @returns how many were due
   */
  async runOnce(stop?: AbortSignal): Promise<number> {
    // What another process has fired, if it dies before it tells those that wait for it.
    this.scheduler.runWithin(AWAITED_TIMES, TAKEN_OVER_MS);
    const due = await inBatches(SCHEDULES_PER_BATCH, stop, () => paced(stop, () => this.#fireDue(), REST));
    const inMs = await this.schedules.nextDueInMs();
    if (inMs !== null) this.scheduler.runWithin(SCHEDULES, inMs);
    return due;
  }

  /** Releases runs whose predecessor has ended, and pauses schedules whose runs fail. @returns how many */
  async followEnds(stop?: AbortSignal): Promise<number> {
    const ended = [...this.#ended];
    this.#ended.clear();
    try {
      const failing = ended.length === 0 ? [] : await this.schedules.listFailing(ended);
      for (const id of failing) await this.service.pauseFailing(id);
      const released = await inBatches(RUNS_PER_BATCH, stop, () => this.#release());
      return failing.length + released;
    } catch (error) {
      for (const id of ended) this.#ended.add(id);
      throw error;
    }
  }

  /** @returns how many were due @throws what keeps the service from firing any, such as an outage of the database */
  async #fireDue(): Promise<number> {
    const due = await this.schedules.takeDue(SCHEDULES_PER_BATCH);
    if (due.length === 0) return 0;
    const ids = due.map(({ id }) => id);
    const failing = new Set(await this.schedules.listFailing(ids));
    const open = await this.schedules.listOpen(ids);
    const results = await Promise.allSettled(
      due.map(async (schedule) => {
        const pausing = failing.has(schedule.id) ? failingNote(schedule) : null;
        const { fired, missed, nextAt } = dueTimes(schedule, schedule.now, pausing !== null);
        const times = schedule.overlap === 'allow' ? fired.slice(0, timesPerCommit(schedule)) : fired;
        const advance = advanceTo(schedule, fired[times.length] ?? nextAt);
        return this.fires.fire({
          schedule,
          kind: 'schedule',
          times,
          missed,
          left: dueTimes({ ...schedule, nextAt: advance.nextAt }, schedule.now, true).missed,
          pausing,
          open: open.get(schedule.id) ?? [],
          advance,
        });
      }),
    );
    const isChanged = results.map((result) => result.status === 'fulfilled' && result.value === null);
    if (isChanged.includes(true)) await this.schedules.giveBack(ids.filter((_id, n) => isChanged[n]));
    const failures = results.flatMap((result, n) =>
      result.status === 'rejected' ? [{ id: ids[n], error: result.reason as unknown }] : [],
    );
    const outage = failures.find(({ error }) => error instanceof DomainError || isDatabaseUnavailable(error));
    // It concerns all of them; the job is repeated and tells it once.
    if (outage) throw outage.error;
    for (const { id, error } of failures) this.logger.error(`Schedule ${id} could not be fired`, error);
    return due.length;
  }

  async #release(): Promise<number> {
    const ids = await this.schedules.listReleasable(RUNS_PER_BATCH);
    await Promise.all(
      ids.map((id) =>
        this.journal.change(id, { type: 'release' }).catch((error: unknown) => {
          if (!(error instanceof RunRejected) && !(error instanceof RunNotFound)) throw error;
        }),
      ),
    );
    return ids.length;
  }
}
