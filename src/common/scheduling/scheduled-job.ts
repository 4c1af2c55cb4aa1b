import { SetMetadata } from '@nestjs/common';
import type { Settings } from '../../config/settings.js';

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;

export interface JobRun {
  /** Reads the database's time. @throws when the database is unavailable */
  readonly now: () => Promise<Date>;
  /** Aborts when the process shuts down. The job then finishes its current batch. */
  readonly stop: AbortSignal;
}

/** Does the work of a job once. @returns how many items it processed */
export type JobWork = (run: JobRun) => number | Promise<number>;

export interface JobOptions {
  /** Name in `SchedulerRegistry`, metrics and log. */
  readonly name: string;
  /** What the job does, in the third person. */
  readonly description: string;
  /** Time between the starts of two runs. A run that takes longer delays the next one. */
  readonly everyMs: number | ((settings: Settings) => number);
  /** Time between the end of a run that processed something and the next run, for work that may have a backlog. */
  readonly againMs?: number;
  /**
   * Spreads the runs of several processes: a regular run starts up to this much early, one that was requested by
   * `JobScheduler.runWithin` up to this much late. Default: a tenth of the interval.
   */
  readonly jitterMs?: number;
  /** Time between the start of the server and the first run. Default: the interval. */
  readonly firstDelayMs?: number;
  /** Whether runs depend on it: the process is not healthy while it fails. Default: false. */
  readonly isVital?: boolean;
  /** Log level of a run that processed something. Default: info. */
  readonly level?: 'debug' | 'info';
  /** Pause after a failed run: it doubles with each failure. Without it, the next regular run tries again. */
  readonly retry?: { readonly firstMs: number; readonly longestMs: number };
}

/** For rows that expire: first a minute after the start, and every minute as long as there are such rows. */
export const RETENTION = { jitterMs: 5 * SECOND, firstDelayMs: MINUTE, againMs: MINUTE } as const;

/** Key of the metadata that {@link ScheduledJob} sets. */
export const SCHEDULED_JOB = 'longshore:scheduled-job';

/**
 * Schedules a method of a provider in every process while its server listens. A job never overlaps itself in one process. Its
 * work must be harmless in several processes at once.
 */
export function ScheduledJob(options: JobOptions) {
  return <W extends JobWork>(target: object, key: string, method: TypedPropertyDescriptor<W>): void => {
    SetMetadata(SCHEDULED_JOB, options)(target, key, method);
  };
}
