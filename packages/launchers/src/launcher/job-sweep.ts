import { errorText } from '@longshore/common/errors';
import { repeat } from '@longshore/worker/process/clock';
import { retryCleanup } from '@longshore/worker/execution/retry-cleanup';
import { Adoptions, inGroups, type FoundAttempt, type Settled } from '@longshore/worker/execution/adoption';
import type { RunView } from '@longshore/worker/service-api/service-api';
import type { WorkerContext } from '@longshore/worker/worker-context';
import type { Engine, EngineJob, JobKey } from './engine.js';
import { nameOf } from './job-table.js';

/** Time between two sweeps, in milliseconds. */
const SWEEP_MS = 60_000;

/** Interval between searches for new jobs of this worker, in milliseconds: far below any worker timeout. */
const POLL_INTERVAL_MS = 2_000;

/** Jobs that one sweep asks the service about, at most; the next one continues behind them. */
const MAX_ASKED = 100;

export interface SweepOptions {
  readonly engine: Engine;
  /** Whether this process executes the attempt. */
  readonly isExecuted: (key: JobKey) => boolean;
  /** Follows a job of this worker. */
  readonly adopt: (job: EngineJob, run: RunView) => void;
}

interface FoundJob extends FoundAttempt {
  readonly job: EngineJob;
}

/** Takes care of jobs that this process did not submit, as {@link Adoptions} decides about them. */
export class JobSweep {
  /** Names of jobs that are being removed. */
  private readonly removing = new Set<string>();
  /** Names of jobs of this worker that the service has answered for and that are left to the sweeps. */
  private asked: ReadonlySet<string> = new Set();
  /** Where the next sweep continues. */
  private after = '';
  private readonly adoptions: Adoptions<FoundJob>;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: SweepOptions,
  ) {
    const { isExecuted, adopt } = options;
    this.adoptions = new Adoptions(context, {
      isExecuted: ({ job }) => isExecuted(job),
      adopt: ({ job }, run) => adopt(job, run),
      remove: ({ job }) => void this.remove(job),
    });
  }

  /**
   * Adopts or removes the jobs of this worker. Asks the service until it answers for one of them: `run` asks again for those
   * without an answer, so that one of them does not keep the others waiting.
   */
  async recover(signal: AbortSignal): Promise<void> {
    const own = this.ownJobs();
    if (own.length > 0)
      this.context.logger.info({ jobs: own.length }, 'found jobs of an earlier process of this worker');
    await this.adoptions.recover(own.map(foundJob), signal);
  }

  /** Looks for such jobs until the signal is aborted: for those of this worker every few seconds, for all every minute. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    await Promise.all([
      repeat(clock, POLL_INTERVAL_MS, signal, () => this.adoptNew(signal)),
      repeat(clock, SWEEP_MS, signal, () => this.sweep(signal)),
    ]);
  }

  /** Another process of this worker may submit a job just before its end, after this one has started. */
  private async adoptNew(signal: AbortSignal): Promise<void> {
    const own = this.ownJobs();
    const asked = new Set(own.map(nameOf).filter((name) => this.asked.has(name)));
    await inGroups(
      own.filter((job) => !asked.has(nameOf(job))),
      async (job) => {
        if ((await this.check(job, signal)) !== 'unanswered') asked.add(nameOf(job));
      },
    );
    this.asked = asked;
  }

  private async sweep(signal: AbortSignal): Promise<void> {
    for (const job of this.nextJobs()) {
      if (signal.aborted) return;
      const settled = await this.check(job, signal);
      // A 404 stops no program, but these do not run. A key of other workers does not see the run.
      const isOwn = job.workerId === this.context.workerId && this.context.key.state === 'accepted';
      if (settled === 'deleted' && isOwn && this.isIdle(job)) void this.remove(job);
    }
  }

  /** Jobs of this worker that this process does not execute. */
  private ownJobs(): EngineJob[] {
    return this.options.engine
      .list()
      .filter((job) => job.workerId === this.context.workerId && this.isUnexecuted(job));
  }

  private isUnexecuted(job: EngineJob): boolean {
    return !this.options.isExecuted(job) && !this.removing.has(nameOf(job));
  }

  /** Whether the engine has the job, and does not run it by now. */
  private isIdle(job: EngineJob): boolean {
    const listed = this.options.engine.list().find((other) => nameOf(other) === nameOf(job));
    return listed !== undefined && listed.status.kind !== 'running';
  }

  private nextJobs(): EngineJob[] {
    const others = this.options.engine
      .list()
      .filter((job) => this.isUnexecuted(job))
      .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    const behind = others.filter((job) => nameOf(job) > this.after);
    const next = [...behind, ...others.filter((job) => !behind.includes(job))].slice(0, MAX_ASKED);
    const last = next.at(-1);
    this.after = others.length > MAX_ASKED && last !== undefined ? nameOf(last) : '';
    return next;
  }

  /** As `Adoptions.settle`, but never rejects. */
  private async check(job: EngineJob, signal: AbortSignal): Promise<Settled> {
    try {
      return await this.adoptions.settle(foundJob(job), signal);
    } catch (error) {
      this.context.logger.warn({ error: errorText(error), engineId: job.engineId }, 'could not check a job');
      return 'unanswered';
    }
  }

  private async remove(job: EngineJob): Promise<void> {
    const name = nameOf(job);
    if (this.removing.has(name)) return;
    this.removing.add(name);
    await retryCleanup('remove the job', () => this.options.engine.remove(job), this.context);
    this.removing.delete(name);
  }
}

function foundJob(job: EngineJob): FoundJob {
  const { runId, attempt, workerId, engineId: id } = job;
  return { runId, attempt, workerId, id, job };
}
