import { Backoff } from '../backoff.js';
import { errorText } from '../execution/failure-message.js';
import { retryCleanup } from '../execution/retry-cleanup.js';
import { lossReason } from '../execution/run-poll.js';
import { isKeyRefusal, type RunView } from '../service-api/service-api.js';
import type { WorkerContext } from '../worker-context.js';
import type { Engine, EngineJob, JobKey } from './engine.js';
import { nameOf } from './job-table.js';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Time between two sweeps, in milliseconds. */
const SWEEP_MS = 60_000;

/** Jobs that a start asks the service about at a time: all are adopted well within the worker timeout. */
const AT_ONCE = 16;

/** Jobs that one sweep asks the service about, at most; the next one continues behind them. */
const MAX_ASKED = 100;

export interface SweepOptions {
  readonly engine: Engine;
  readonly graceSeconds: number;
  /** Whether this process executes the attempt. */
  readonly isExecuted: (key: JobKey) => boolean;
  /** Follows a job of this worker. */
  readonly adopt: (job: EngineJob, run: RunView) => void;
}

/**
 * Takes care of jobs that this process did not submit. The service decides: a job whose worker holds its attempt is adopted
 * when it is of this worker, and left alone otherwise; a job whose attempt is lost is removed, whoever submitted it.
 */
export class JobSweep {
  /** Names of jobs that are being removed. */
  private readonly removing = new Set<string>();
  /** Where the next sweep continues. */
  private after = '';

  constructor(
    private readonly context: WorkerContext,
    private readonly options: SweepOptions,
  ) {}

  /** Adopts or removes the jobs of this worker. Asks the service until it answers. */
  async recover(signal: AbortSignal): Promise<void> {
    const { workerId, logger } = this.context;
    const own = this.options.engine.list().filter((job) => job.workerId === workerId);
    if (own.length > 0) logger.info({ jobs: own.length }, 'found jobs of an earlier process of this worker');
    for (let from = 0; from < own.length; from += AT_ONCE) {
      const some = own.slice(from, from + AT_ONCE);
      await Promise.all(some.map((job) => this.untilSettled(job, signal)));
    }
  }

  /** Looks for such jobs every minute until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.context;
    while (!signal.aborted) {
      await clock.sleep(SWEEP_MS, signal);
      for (const job of this.nextJobs()) {
        if (signal.aborted) return;
        try {
          await this.settle(job, signal);
        } catch (error) {
          logger.warn({ error: errorText(error), engineId: job.engineId }, 'could not check a job');
        }
      }
    }
  }

  private async untilSettled(job: EngineJob, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.context;
    const backoff = new Backoff(RETRY, random);
    while (!signal.aborted && !(await this.settle(job, signal))) await clock.sleep(backoff.nextMs(), signal);
  }

  private nextJobs(): EngineJob[] {
    const { engine, isExecuted } = this.options;
    const others = engine
      .list()
      .filter((job) => !isExecuted(job) && !this.removing.has(nameOf(job)))
      .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    const behind = others.filter((job) => nameOf(job) > this.after);
    const next = [...behind, ...others.filter((job) => !behind.includes(job))].slice(0, MAX_ASKED);
    const last = next.at(-1);
    this.after = others.length > MAX_ASKED && last !== undefined ? nameOf(last) : '';
    return next;
  }

  /** @returns whether the service has answered */
  private async settle(job: EngineJob, signal: AbortSignal): Promise<boolean> {
    const { api, workerId, logger, onKeyRefused } = this.context;
    const { isExecuted, adopt } = this.options;
    const answer = await api.getRun(job.runId);
    if (signal.aborted || isExecuted(job)) return true;
    if (answer.kind === 'unreachable') return false;
    const { engineId, runId, attempt } = job;
    if (answer.kind === 'refused') {
      const { status } = answer;
      const isOwn = job.workerId === workerId;
      logger.debug({ engineId, run: runId, status }, 'the service does not show the run of a job');
      // A key that is bound to workers may not see the runs of others.
      if (isKeyRefusal(answer) && isOwn) onKeyRefused(answer);
      // The run is deleted. A 404 stops no program, and this one has ended.
      if (status === 404 && isOwn && hasEnded(job)) void this.remove(job);
      return true;
    }
    // The answer is older than the job.
    if (answer.value.currentAttempt < attempt) return true;
    const why = lossReason(answer.value, job.workerId, attempt);
    if (why !== null) {
      logger.info({ engineId, run: runId, attempt, why }, 'removing a job whose attempt is lost');
      void this.remove(job);
    } else if (job.workerId === workerId) {
      logger.info({ engineId, run: runId, attempt }, 'adopting a job');
      adopt(job, answer.value);
    }
    return true;
  }

  private async remove(job: EngineJob): Promise<void> {
    const { engine, graceSeconds } = this.options;
    const name = nameOf(job);
    if (this.removing.has(name)) return;
    this.removing.add(name);
    await retryCleanup('remove the job', () => engine.remove(job, graceSeconds), this.context);
    this.removing.delete(name);
  }
}

function hasEnded({ status }: EngineJob): boolean {
  return status.kind === 'exited' || status.kind === 'failed';
}
