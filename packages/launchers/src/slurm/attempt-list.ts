import type { EngineJob, JobKey } from '../launcher/engine.js';
import { nameOf } from '../launcher/job-table.js';
import { jobOf, lacksExit, superfluousJobs, type AttemptFacts } from './job-status.js';
import type { FolderState, JobFolders } from './job-folders.js';
import { hasEnded, isWaiting, JOB_FORMAT, parseJobs, type SlurmJob } from './squeue-lines.js';
import type { SlurmCommands } from './slurm-commands.js';

/** A folder whose job Slurm never accepted is of no use after this time, in milliseconds: longer than any sbatch takes. */
const UNSUBMITTED_MS = 10 * 60_000;

/** How long a job is submitted again that a limit may refuse for good, in milliseconds: less than its folder is kept. */
const REFUSED_MS = 5 * 60_000;

/** One look at the controller's list and at the folders. */
export interface Listing {
  readonly jobs: readonly EngineJob[];
  /** All jobs of the deployment that the controller lists. */
  readonly slurmJobs: readonly SlurmJob[];
  /** Ids of jobs that wait although another one has the attempt. */
  readonly superfluous: readonly string[];
  /** Attempts with a folder and no job, made long ago. */
  readonly abandoned: readonly JobKey[];
}

export interface AttemptListOptions {
  readonly commands: SlurmCommands;
  readonly folders: JobFolders;
  readonly deployment: string;
}

/** Lists the attempts of a deployment from Slurm's list and the folders. */
export class AttemptList {
  /** Newest answer of the controller. */
  private slurmJobs: readonly SlurmJob[] = [];
  /** Since when a job is over without an exit record, by attempt, on the clock of `performance.now()`. */
  private readonly missingSince = new Map<string, number>();

  constructor(private readonly options: AttemptListOptions) {}

  /** Asks the controller. @throws EngineFault when it does not answer */
  async ask(): Promise<void> {
    const { commands, deployment } = this.options;
    this.slurmJobs = parseJobs(await commands.listJobs(JOB_FORMAT), deployment);
  }

  /**
   * Reads the folders. They come after the controller's answer: what a job wrote before its end is in them then.
   * @param isListFresh whether the controller has just answered
   * @param isRecent whether a job may be newer than the controller's answer
   * @throws Error when the shared folder cannot be read
   */
  async look(isListFresh: boolean, isRecent: (key: JobKey) => boolean): Promise<Listing> {
    const { folders } = this.options;
    const byName = new Map<string, SlurmJob[]>();
    for (const job of this.slurmJobs) byName.set(nameOf(job), [...(byName.get(nameOf(job)) ?? []), job]);
    const found = new Map<string, JobKey>();
    for (const key of [...(await folders.list()), ...this.slurmJobs]) found.set(nameOf(key), key);
    const listing = {
      jobs: new Array<EngineJob>(),
      superfluous: new Array<string>(),
      abandoned: new Array<JobKey>(),
    };
    const keys = [...found.values()];
    const states = await Promise.all(keys.map((key) => folders.read(key)));
    for (const [index, { runId, attempt }] of keys.entries()) {
      const name = nameOf({ runId, attempt });
      const folder = states[index] ?? null;
      const known = { runId, attempt, folder, jobs: byName.get(name) ?? [], isListFresh, missingMs: 0 };
      const facts = { ...known, missingMs: isRecent(known) ? 0 : this.missingMs(name, known) };
      const job = jobOf(facts);
      if (job !== null) listing.jobs.push(job);
      else if (isAbandoned(folder)) listing.abandoned.push({ runId, attempt });
      listing.superfluous.push(...superfluousJobs(facts).map(({ id }) => id));
    }
    for (const name of this.missingSince.keys()) if (!found.has(name)) this.missingSince.delete(name);
    return { ...listing, slurmJobs: this.slurmJobs };
  }

  /** Ids of the attempt's jobs that have not ended, as of the newest answer. */
  liveJobs(key: JobKey): { readonly waiting: readonly string[]; readonly others: readonly string[] } {
    const live = this.slurmJobs.filter((job) => nameOf(job) === nameOf(key) && !hasEnded(job));
    return { waiting: idsOf(live.filter(isWaiting)), others: idsOf(live.filter((job) => !isWaiting(job))) };
  }

  /**
   * Whether a limit has refused the attempt for long, and the newest answer has no job that could be what fills the limit.
   * @throws Error when the shared folder cannot be read
   */
  async isHopeless(key: JobKey): Promise<boolean> {
    const folder = await this.options.folders.read(key);
    const isLate = folder !== null && Date.now() - folder.createdAtMs >= REFUSED_MS;
    return isLate && this.slurmJobs.every(hasEnded);
  }

  private missingMs(name: string, facts: AttemptFacts): number {
    if (!lacksExit(facts)) {
      this.missingSince.delete(name);
      return 0;
    }
    const since = this.missingSince.get(name) ?? performance.now();
    this.missingSince.set(name, since);
    return performance.now() - since;
  }
}

function idsOf(jobs: readonly SlurmJob[]): string[] {
  return jobs.map(({ id }) => id);
}

function isAbandoned(folder: FolderState | null): boolean {
  return folder !== null && Date.now() - folder.createdAtMs > UNSUBMITTED_MS;
}
