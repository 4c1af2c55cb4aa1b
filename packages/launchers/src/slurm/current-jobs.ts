import { setTimeout as sleep } from 'node:timers/promises';
import type { RuntimeLog } from '@longshore/worker/runtime/runtime';
import type { EngineJob, JobKey } from '../launcher/engine.js';
import { JobTable, nameOf } from '../launcher/job-table.js';
import type { AttemptList } from './attempt-list.js';
import { inFolder, type JobFolders } from './job-folders.js';
import type { SlurmCommands } from './slurm-commands.js';
import type { SlurmJob } from './squeue-lines.js';

export interface CurrentJobsOptions {
  readonly commands: SlurmCommands;
  readonly folders: JobFolders;
  readonly attempts: AttemptList;
  readonly log: RuntimeLog;
}

/** Keeps the table of the jobs current: lists them again and again, and takes over what this process does meanwhile. */
export class CurrentJobs {
  readonly table = new JobTable();
  private slurmJobs: readonly SlurmJob[] = [];
  /** Number of the newest list that was begun. */
  private lists = 0;
  /** The list that was begun at the time of a submission or a removal, by attempt: older ones say nothing about it. */
  private readonly submittedAt = new Map<string, number>();
  private readonly removedAt = new Map<string, number>();
  private running: Promise<void> = Promise.resolve();
  private queued: Promise<void> | null = null;
  private isAway = false;
  private readonly closing = new AbortController();

  constructor(private readonly options: CurrentJobsOptions) {}

  /** Looks again and again until the end. */
  async repeat(pauseMs: number, look: () => Promise<void>): Promise<void> {
    const { signal } = this.closing;
    for (;;) {
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      // Refreshes log that the controller is unavailable.
      await look().catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.running.catch(() => undefined);
  }

  /** The jobs in Slurm of a launcher of the deployment, as of the newest list. */
  jobsOf(workerId: string): readonly SlurmJob[] {
    return this.slurmJobs.filter((job) => job.workerId === workerId);
  }

  /** Adds a job that was submitted, which the lists may not have yet. */
  add(job: EngineJob): void {
    this.submittedAt.set(nameOf(job), this.lists);
    this.table.put(job);
  }

  /**
   * Drops the attempt, which older lists may still have.
   * @param removeFolder deletes its folder
   */
  async drop(key: JobKey, removeFolder: () => Promise<void>): Promise<void> {
    this.removedAt.set(nameOf(key), this.lists);
    this.submittedAt.delete(nameOf(key));
    await removeFolder();
    this.table.delete(key);
  }

  /**
   * Waits for a list that begins after this call; calls at the same time share it.
   * @throws EngineFault when the controller does not answer; what the folders say is taken over nevertheless
   */
  fresh(): Promise<void> {
    this.queued ??= this.running
      .catch(() => undefined)
      .then(() => {
        this.queued = null;
        this.running = this.refresh();
        return this.running;
      });
    return this.queued;
  }

  private async refresh(): Promise<void> {
    const { attempts, commands, folders } = this.options;
    this.lists += 1;
    const number = this.lists;
    const fault = await attempts.ask().then(
      () => null,
      (error: unknown) => error,
    );
    const isAfter = (times: ReadonlyMap<string, number>, key: JobKey): boolean =>
      (times.get(nameOf(key)) ?? 0) >= number;
    const isRecent = (key: JobKey): boolean => isAfter(this.submittedAt, key);
    const listing = await inFolder(() => attempts.look(fault === null, isRecent));
    this.slurmJobs = listing.slurmJobs;
    const present = listing.jobs.filter((job) => !isAfter(this.removedAt, job));
    this.table.replace(present, isRecent);
    this.forget(number);
    this.logReach(fault);
    if (fault !== null) throw fault;
    await commands.cancelPending(listing.superfluous);
    for (const key of listing.abandoned) await inFolder(() => folders.remove(key));
  }

  /** Drops what lists after this one do not need. */
  private forget(number: number): void {
    for (const times of [this.submittedAt, this.removedAt])
      for (const [name, at] of times) if (at < number) times.delete(name);
  }

  private logReach(fault: unknown): void {
    const { log } = this.options;
    const reason = fault instanceof Error ? fault.message : String(fault);
    if (fault !== null && !this.isAway) log.warn({ reason }, 'Slurm does not answer: waiting for it');
    if (fault === null && this.isAway) log.info({}, 'Slurm answers again');
    this.isAway = fault !== null;
  }
}
