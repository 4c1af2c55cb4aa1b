import type { Abstract, Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';

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
  readonly everyMs: number;
  /** Time between the end of a run that processed something and the next run, for work that may have a backlog. */
  readonly againMs?: number;
  /**
   * Spreads the runs of several processes: a regular run starts up to this much early, one that was requested by
   * `JobScheduler.runWithin` up to this much late.
   */
  readonly jitterMs: number;
  /** Time between the start of the server and the first run. */
  readonly firstDelayMs: number;
  /** Whether one process at a time does the work, under the job's advisory lock, or all of them do it side by side. */
  readonly processes: 'one' | 'all';
  /** Log level of a run that processed something. */
  readonly level: 'debug' | 'info';
  /** Pause after a failed run: it doubles with each failure. Without it, the next regular run tries again. */
  readonly retry?: { readonly firstMs: number; readonly longestMs: number };
}

/** An entry of the registry of jobs. */
export interface ScheduledJob extends JobOptions {
  /** Finds the provider that does the work. */
  readonly resolve: (providers: ModuleRef) => JobWork;
}

/** @param provider the injectable class that does the work */
export function scheduledJob<T>(
  options: JobOptions,
  provider: Type<T> | Abstract<T>,
  work: (provider: T, run: JobRun) => number | Promise<number>,
): ScheduledJob {
  return {
    ...options,
    resolve: (providers) => {
      const instance = providers.get<T, T>(provider, { strict: false });
      return (run) => work(instance, run);
    },
  };
}
