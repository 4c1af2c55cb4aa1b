import { setTimeout as sleep } from 'node:timers/promises';
import { errorText } from '@longshore/common/errors';
import type { RuntimeLog } from '@longshore/worker/runtime/runtime';
import type { EngineJob, JobKey } from '../launcher/engine.js';
import { JobTable, nameOf } from '../launcher/job-table.js';
import { inFolder, type JobFolders } from './job-folders.js';
import { jobOf, lacksExit, superfluousJobs, type AttemptFacts } from './job-status.js';
import type { SlurmCommands } from './slurm-commands.js';
import { hasEnded, isWaiting, JOB_FORMAT, parseJobs, type SlurmJob } from './slurm-lines.js';

/** A folder whose job Slurm never accepted is of no use after this time, in milliseconds: longer than any sbatch takes. */
const UNSUBMITTED_MS = 10 * 60_000;

/** How long a job is submitted again that a limit may refuse for good, in milliseconds: less than its folder is kept. */
const REFUSED_MS = 5 * 60_000;

interface CurrentJobsOptions {
  readonly commands: SlurmCommands;
  readonly folders: JobFolders;
  readonly deployment: string;
  readonly log: RuntimeLog;
}

/** What one look at the controller's list and at the folders has found. */
interface Listing {
  readonly jobs: EngineJob[];
  /** Ids of jobs that wait although another one has the attempt. */
  readonly superfluous: string[];
  /** Attempts with a folder and no job, made long ago. */
  readonly abandoned: JobKey[];
}

/**
 * Keeps the table of the deployment's jobs current: lists them again and again from Slurm's list and the folders, and takes over
 * what this process does meanwhile.
 */
export class CurrentJobs {
  readonly table = new JobTable();
  /** All jobs of the deployment in the newest answer of the controller. */
  private slurmJobs: readonly SlurmJob[] = [];
  /** Since when a job is over without an exit record, by attempt, on the clock of `performance.now()`. */
  private readonly missingSince = new Map<string, number>();
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

  /** Ids of the attempt's jobs that have not ended, as of the newest answer. */
  liveJobs(key: JobKey): { readonly waiting: readonly string[]; readonly others: readonly string[] } {
    const live = this.slurmJobs.filter((job) => nameOf(job) === nameOf(key) && !hasEnded(job));
    const idsOf = (isWanted: boolean): string[] =>
      live.filter((job) => isWaiting(job) === isWanted).map(({ id }) => id);
    return { waiting: idsOf(true), others: idsOf(false) };
  }

  /**
   * Whether a limit has refused the attempt for long, and the newest answer has no job that could be what fills the limit.
   * @throws EngineFault when the shared folder cannot be read
   */
  async isHopeless(key: JobKey): Promise<boolean> {
    const folder = await inFolder(() => this.options.folders.read(key));
    const isLate = folder !== null && Date.now() - folder.createdAtMs >= REFUSED_MS;
    return isLate && this.slurmJobs.every(hasEnded);
  }

  /** Adds a job that was submitted, which the lists may not have yet. */
  add(job: EngineJob): void {
    this.submittedAt.set(nameOf(job), this.lists);
    this.table.put(job);
  }

  /** Drops the attempt, which older lists may still have, with its folder. */
  async drop(key: JobKey): Promise<void> {
    this.removedAt.set(nameOf(key), this.lists);
    this.submittedAt.delete(nameOf(key));
    await inFolder(() => this.options.folders.remove(key));
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
    const { commands, folders } = this.options;
    this.lists += 1;
    const number = this.lists;
    const fault = await this.ask().then(
      () => null,
      (error: unknown) => error,
    );
    const isAfter = (times: ReadonlyMap<string, number>, key: JobKey): boolean =>
      (times.get(nameOf(key)) ?? 0) >= number;
    const isRecent = (key: JobKey): boolean => isAfter(this.submittedAt, key);
    const { jobs, superfluous, abandoned } = await inFolder(() => this.look(fault === null, isRecent));
    this.table.replace(
      jobs.filter((job) => !isAfter(this.removedAt, job)),
      isRecent,
    );
    for (const times of [this.submittedAt, this.removedAt])
      for (const [name, at] of times) if (at < number) times.delete(name);
    this.logReach(fault);
    if (fault !== null) throw fault;
    await commands.cancelPending(superfluous);
    for (const key of abandoned) await inFolder(() => folders.remove(key));
  }

  /** Asks the controller. @throws EngineFault when it does not answer */
  private async ask(): Promise<void> {
    const { commands, deployment } = this.options;
    this.slurmJobs = parseJobs(await commands.listJobs(JOB_FORMAT), deployment);
  }

  /**
   * Reads the folders. They come after the controller's answer: what a job wrote before its end is in them then.
   * @param isListFresh whether the controller has just answered
   * @param isRecent whether a job may be newer than the controller's answer
   * @throws Error when the shared folder cannot be read
   */
  private async look(isListFresh: boolean, isRecent: (key: JobKey) => boolean): Promise<Listing> {
    const { folders } = this.options;
    const found = new Map<string, JobKey>();
    for (const key of [...(await folders.list()), ...this.slurmJobs]) found.set(nameOf(key), key);
    const byName = new Map<string, SlurmJob[]>();
    for (const job of this.slurmJobs) byName.set(nameOf(job), [...(byName.get(nameOf(job)) ?? []), job]);
    const listing: Listing = { jobs: [], superfluous: [], abandoned: [] };
    const attempts = await Promise.all(
      [...found].map(async ([name, { runId, attempt }]): Promise<AttemptFacts> => {
        const folder = await folders.read({ runId, attempt });
        return { runId, attempt, folder, jobs: byName.get(name) ?? [], isListFresh, missingMs: 0 };
      }),
    );
    for (const known of attempts) {
      const facts = { ...known, missingMs: isRecent(known) ? 0 : this.missingMs(known) };
      const { runId, attempt, folder } = facts;
      const job = jobOf(facts);
      if (job !== null) listing.jobs.push(job);
      else if (folder !== null && Date.now() - folder.createdAtMs > UNSUBMITTED_MS)
        listing.abandoned.push({ runId, attempt });
      listing.superfluous.push(...superfluousJobs(facts).map(({ id }) => id));
    }
    for (const name of this.missingSince.keys()) if (!found.has(name)) this.missingSince.delete(name);
    return listing;
  }

  private missingMs(facts: AttemptFacts): number {
    const name = nameOf(facts);
    if (!lacksExit(facts)) {
      this.missingSince.delete(name);
      return 0;
    }
    const since = this.missingSince.get(name) ?? performance.now();
    this.missingSince.set(name, since);
    return performance.now() - since;
  }

  private logReach(fault: unknown): void {
    const { log } = this.options;
    if (fault !== null && !this.isAway)
      log.warn({ reason: errorText(fault) }, 'Slurm does not answer: waiting for it');
    if (fault === null && this.isAway) log.info({}, 'Slurm answers again');
    this.isAway = fault !== null;
  }
}
