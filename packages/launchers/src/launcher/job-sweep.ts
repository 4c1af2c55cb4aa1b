import { Backoff } from '@longshore/common/backoff';
import { errorText } from '@longshore/common/errors';
import { repeat } from '@longshore/worker/process/clock';
import { retryCleanup } from '@longshore/worker/execution/retry-cleanup';
import { lossReason } from '@longshore/worker/execution/run-requests';
import { isRunUnknown } from '@longshore/worker/service-api/service-answer';
import type { RunView } from '@longshore/worker/service-api/service-api';
import type { WorkerContext } from '@longshore/worker/worker-context';
import type { Engine, EngineJob, JobKey } from './engine.js';
import { nameOf } from './job-table.js';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Time between two sweeps, in milliseconds. */
const SWEEP_MS = 60_000;

/** Interval between searches for new jobs of this worker, in milliseconds: far below any worker timeout. */
const POLL_INTERVAL_MS = 2_000;

/** Jobs of this worker that it asks the service about at a time: all are adopted well within the worker timeout. */
const AT_ONCE = 16;

/** Jobs that one sweep asks the service about, at most; the next one continues behind them. */
const MAX_ASKED = 100;

export interface SweepOptions {
  readonly engine: Engine;
  /** Whether this process executes the attempt. */
  readonly isExecuted: (key: JobKey) => boolean;
  /** Follows a job of this worker. */
  readonly adopt: (job: EngineJob, run: RunView) => void;
}

/** What the service has said about a job. `deleted`: it does not know the run. */
type Settled = 'unanswered' | 'answered' | 'deleted';

/**
 * Takes care of jobs that this process did not submit. The service decides: a job whose worker holds its attempt is adopted
 * when it is of this worker, and left alone otherwise; a job whose attempt is lost is removed, regardless of which launcher submitted it.
 */
export class JobSweep {
  /** Names of jobs that are being removed. */
  private readonly removing = new Set<string>();
  /** Names of jobs of this worker that the service has answered for and that are left to the sweeps. */
  private asked: ReadonlySet<string> = new Set();
  /** Where the next sweep continues. */
  private after = '';

  constructor(
    private readonly context: WorkerContext,
    private readonly options: SweepOptions,
  ) {}

  /**
   * Adopts or removes the jobs of this worker. Asks the service until it answers for one of them: `run` asks again for those
   * without an answer, so that one of them does not keep the others waiting.
   */
  async recover(signal: AbortSignal): Promise<void> {
    const { clock, random, logger } = this.context;
    const own = this.ownJobs();
    if (own.length > 0) logger.info({ jobs: own.length }, 'found jobs of an earlier process of this worker');
    let hasAnswered = false;
    await inGroups(own, async (job) => {
      const backoff = new Backoff(RETRY, random);
      while (!signal.aborted) {
        if ((await this.settle(job, signal)) !== 'unanswered') hasAnswered = true;
        if (hasAnswered) return;
        await clock.sleep(backoff.nextMs(), signal);
        if (hasAnswered) return;
      }
    });
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

  /** As `settle`, but never rejects. */
  private async check(job: EngineJob, signal: AbortSignal): Promise<Settled> {
    try {
      return await this.settle(job, signal);
    } catch (error) {
      this.context.logger.warn({ error: errorText(error), engineId: job.engineId }, 'could not check a job');
      return 'unanswered';
    }
  }

  private async settle(job: EngineJob, signal: AbortSignal): Promise<Settled> {
    const { api, workerId, logger } = this.context;
    const { isExecuted, adopt } = this.options;
    const answer = await api.getRun(job.runId);
    if (signal.aborted || isExecuted(job)) return 'answered';
    if (answer.kind === 'unreachable') return 'unanswered';
    const { engineId, runId, attempt } = job;
    if (answer.kind === 'refused') {
      const { status, detail } = answer;
      logger.debug({ engineId, run: runId, status, detail }, 'the service does not show the run of a job');
      return isRunUnknown(answer) ? 'deleted' : 'answered';
    }
    // The answer is older than the job.
    if (answer.value.currentAttempt < attempt) return 'answered';
    const why = lossReason(answer.value, job.workerId, attempt);
    if (why !== null) {
      logger.info({ engineId, run: runId, attempt, why }, 'removing a job whose attempt is lost');
      void this.remove(job);
    } else if (job.workerId === workerId) {
      logger.info({ engineId, run: runId, attempt }, 'adopting a job');
      adopt(job, answer.value);
    }
    return 'answered';
  }

  private async remove(job: EngineJob): Promise<void> {
    const name = nameOf(job);
    if (this.removing.has(name)) return;
    this.removing.add(name);
    await retryCleanup('remove the job', () => this.options.engine.remove(job), this.context);
    this.removing.delete(name);
  }
}

async function inGroups(jobs: readonly EngineJob[], work: (job: EngineJob) => Promise<void>): Promise<void> {
  for (let from = 0; from < jobs.length; from += AT_ONCE)
    await Promise.all(jobs.slice(from, from + AT_ONCE).map(work));
}
