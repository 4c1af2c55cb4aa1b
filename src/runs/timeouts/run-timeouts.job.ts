import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Notifications } from '../../database/notifications.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { DeadlineJob, type DeadlineCounts } from './deadline.job.js';
import { DEADLINE_CHANNEL, DeadlineRepository } from './deadline.repository.js';

/** Name of the job in the registry. */
export const RUN_TIMEOUTS = 'run_timeouts';

/** Pause after a run that found only what another process was carrying out. */
const LEAVE_IT_TO_OTHERS_MS = 250;

/** Carries out what is due and has itself run again when the next deadline is due, which commits announce. */
@Injectable()
export class RunTimeoutsJob implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly job: DeadlineJob,
    private readonly deadlines: DeadlineRepository,
    private readonly notifications: Notifications,
    private readonly scheduler: JobScheduler,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notifications.subscribe(DEADLINE_CHANNEL, (payload) =>
      this.scheduler.runWithin(RUN_TIMEOUTS, announcedDelay(payload)),
    );
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
  }

  /**
   * Runs once over what is due, and brings the next run forward to the next deadline.
   * @param now the database's time
   * @param stop ends the run between two batches
   * @throws as `DeadlineJob.runOnce`
   */
  async runOnce(now: Date, stop: AbortSignal): Promise<DeadlineCounts> {
    const counts = await this.job.runOnce(now, stop);
    const inMs = await this.deadlines.nextDue(this.dataSource.manager);
    const others = counts.carriedOut === 0 && counts.nothingDue > 0;
    if (inMs !== null)
      this.scheduler.runWithin(RUN_TIMEOUTS, Math.max(inMs, others ? LEAVE_IT_TO_OTHERS_MS : 0));
    return counts;
  }
}

/** Milliseconds until what was announced is due; 0 when that is not known. */
function announcedDelay(payload: string | null): number {
  const ms = Number(payload ?? 0);
  return Number.isFinite(ms) ? ms : 0;
}
