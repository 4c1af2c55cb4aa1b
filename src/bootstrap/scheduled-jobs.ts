import { FeedRetention } from '../feed/feed-retention.js';
import { ClosedLogCheck } from '../run-logs/log-notifications.js';
import { LogRemovalJob } from '../run-logs/log-removal.job.js';
import { RUN_TIMEOUTS, RunTimeoutsJob } from '../runs/timeouts/run-timeouts.job.js';
import { IdempotencyRetentionJob } from '../runs/idempotency/idempotency-retention.job.js';
import { RestrictedQueueJob } from '../runs/queue/restricted-queue.job.js';
import { RunRetention } from '../runs/retention/run-retention.js';
import { RunCountsRollUp } from '../runs/counts/run-counts.roll-up.js';
import { RunDemandRollUp } from '../runs/counts/run-demand.roll-up.js';
import { scheduledJob, type JobOptions, type ScheduledJob } from '../common/scheduling/scheduled-job.js';
import type { Settings } from '../config/settings.js';
import { WorkerPool } from '../workers/pool/worker-pool.js';
import { GracePeriod, pauseCheckMs } from '../workers/reaper/grace-period.js';
import { Reaper } from '../workers/reaper/reaper.js';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A job that first runs after one interval, with 10 % jitter, in all processes. It logs what it has done. */
function every(everyMs: number): Omit<JobOptions, 'name' | 'description'> {
  return { everyMs, jitterMs: everyMs / 10, firstDelayMs: everyMs, processes: 'all', level: 'info' };
}

/** As `every`, for rows that expire: first a minute after the start, and every minute as long as there are such rows. */
function removing(everyMs: number): Omit<JobOptions, 'name' | 'description'> {
  return { ...every(everyMs), jitterMs: 5 * SECOND, firstDelayMs: MINUTE, againMs: MINUTE };
}

/** All scheduled jobs of the service, which docs/operations.md lists. */
export function scheduledJobs({
  reaperInterval,
  workerTimeout,
}: Pick<Settings, 'reaperInterval' | 'workerTimeout'>): readonly ScheduledJob[] {
  return [
    scheduledJob(
      {
        name: 'reaper_pause_check',
        description: 'makes the reaper wait after a pause of the process, in which workers could not report',
        ...every(pauseCheckMs(workerTimeout * SECOND)),
        jitterMs: 0,
        firstDelayMs: 0,
        level: 'debug',
      },
      GracePeriod,
      (grace) => {
        if (grace.hasStarted) grace.check();
        else grace.start();
        return 0;
      },
    ),
    scheduledJob(
      {
        name: 'reaper',
        description: 'takes runs from stale workers',
        ...every(reaperInterval * SECOND),
        jitterMs: 0.2 * reaperInterval * SECOND,
        firstDelayMs: 0,
        // It logs the runs and workers itself.
        level: 'debug',
      },
      Reaper,
      async (reaper, { stop }) => {
        const { silent, unreported } = await reaper.runOnce(stop);
        return silent + unreported;
      },
    ),
    scheduledJob(
      {
        name: RUN_TIMEOUTS,
        description:
          'carries out timeouts, delayed starts and ends of back-offs; also runs when the next one is due',
        ...every(5 * MINUTE),
        jitterMs: 20,
        firstDelayMs: 0,
        level: 'debug',
        retry: { firstMs: 100, longestMs: 10 * SECOND },
      },
      RunTimeoutsJob,
      async (job, { now, stop }) => (await job.runOnce(await now(), stop)).applied,
    ),
    scheduledJob(
      {
        name: 'closed_log_check',
        description: 'wakes readers of logs that are over because their worker is stale',
        // Each process wakes its own readers.
        ...every(15 * SECOND),
        level: 'debug',
      },
      ClosedLogCheck,
      (check) => check.runOnce(),
    ),
    scheduledJob(
      {
        name: 'run_demand_roll_up',
        description: 'sums up the counts of pending runs by the second',
        ...every(30 * SECOND),
        processes: 'one',
        level: 'debug',
      },
      RunDemandRollUp,
      async (rollUp, { now, stop }) => rollUp.runOnce(await now(), stop),
    ),
    scheduledJob(
      {
        name: 'restricted_queue_cleanup',
        description:
          'frees overdue slots of concurrency keys, removes keys and requirements that no run uses',
        ...every(MINUTE),
        processes: 'one',
        level: 'debug',
      },
      RestrictedQueueJob,
      (job, { stop }) => job.runOnce(stop),
    ),
    scheduledJob(
      {
        name: 'run_counts_roll_up',
        description: 'sums up the counts of runs by the second and by the minute',
        ...every(2 * MINUTE),
        processes: 'one',
        level: 'debug',
      },
      RunCountsRollUp,
      async (rollUp, { now, stop }) => rollUp.runOnce(await now(), stop),
    ),
    scheduledJob(
      {
        name: 'run_retention',
        description: 'removes runs that ended before the retention time',
        ...removing(10 * MINUTE),
        processes: 'one',
      },
      RunRetention,
      async (retention, { now, stop }) => retention.runOnce(await now(), stop),
    ),
    scheduledJob(
      {
        name: 'feed_retention',
        description: 'removes feed entries older than the retention time',
        ...removing(5 * MINUTE),
        processes: 'one',
      },
      FeedRetention,
      async (retention, { now, stop }) => (await retention.runOnce(await now(), stop)).entries,
    ),
    scheduledJob(
      {
        name: 'run_log_retention',
        description: 'removes the logs of removed runs',
        ...removing(5 * MINUTE),
      },
      LogRemovalJob,
      async (job, { now, stop }) => job.runOnce(await now(), stop),
    ),
    scheduledJob(
      {
        name: 'idempotency_key_retention',
        description: 'removes idempotency keys older than two days',
        ...removing(10 * MINUTE),
      },
      IdempotencyRetentionJob,
      async (job, { now, stop }) => job.runOnce(await now(), stop),
    ),
    scheduledJob(
      {
        name: 'worker_retention',
        description: 'removes workers that have been silent for a day',
        ...every(5 * MINUTE),
      },
      WorkerPool,
      (pool, { stop }) => pool.forget(stop),
    ),
  ];
}
