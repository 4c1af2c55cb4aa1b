import type { Logger } from 'pino';
import { errorText } from '@longshore/common/errors';
import type { Collected, GetUploads } from '@longshore/worker/artifacts/collect';
import type { ExecutionTrace } from '@longshore/worker/execution/execution-trace';
import type { RunRequests } from '@longshore/worker/execution/run-requests';
import type { StopSignal } from '@longshore/worker/execution/stop-signal';
import {
  NOTHING_LEFT,
  untilCollected,
  type Left,
  type ReadFiles,
} from '@longshore/worker/execution/attempt-artifacts';
import { repeat, type Clock } from '@longshore/worker/process/clock';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import type { ClaimedRun } from '@longshore/worker/service-api/service-api';
import type { Engine, EngineJob } from './engine.js';
import type { EndTimeout } from './engine-requests.js';

/** How often a job gets fresh URLs of its files, in milliseconds. They are valid for an hour at least. */
const RENEWAL_MS = 1_800_000;

/** The files that a run gets and leaves; null: none. */
export function filesOf({ artifacts }: Pick<ClaimedRun, 'artifacts'>): RunArtifacts | null {
  const all = Object.keys({ ...artifacts?.in, ...artifacts?.out });
  return artifacts === undefined || all.length === 0 ? null : artifacts;
}

/** Whether the jobs of an engine fetch and store the files of runs; otherwise the launcher does, or nobody. */
export function movesFiles(engine: Engine): boolean {
  return engine.files === undefined && 'storeFiles' in engine;
}

/** Reads what an ended job has left in a folder that it shares with the launcher; null: it shares none. */
export function filesReader({ files }: Engine, job: EngineJob, signal: AbortSignal): ReadFiles {
  return files === undefined ? null : (task) => task(files.ended(job, signal));
}

interface JobFilesParts {
  readonly artifacts: RunArtifacts | null;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly requests: RunRequests;
  readonly endTimeout: EndTimeout;
  readonly stopSignal: StopSignal;
  readonly trace: ExecutionTrace;
  readonly logger: Logger;
}

/** The files that the run of a job gets and leaves. */
export class JobFiles {
  private readonly ended = new AbortController();
  private storing: Promise<Collected> | null = null;

  constructor(private readonly parts: JobFilesParts) {}

  /**
   * Gives the job fresh URLs until its container has ended, as it can wait for long. Never rejects.
   * @param areOld whether another process has submitted the job
   */
  async renew(job: EngineJob, areOld: boolean): Promise<void> {
    const { artifacts, clock, stopSignal } = this.parts;
    if (artifacts === null) return;
    const over = AbortSignal.any([stopSignal.signal, this.ended.signal]);
    if (areOld) await this.renewOnce(job, over);
    await repeat(clock, RENEWAL_MS, over, () => this.renewOnce(job, over));
  }

  /** The job needs no fresh URLs any more. */
  end(): void {
    this.ended.abort();
  }

  /** Begins to store what the ended container leaves, once. */
  begin(job: EngineJob): Promise<Collected> {
    this.end();
    const { trace, endTimeout } = this.parts;
    this.storing ??= trace.step('store files', () =>
      endTimeout.limit('the files of the run', (until) => this.store(job, until)),
    );
    this.storing.catch(() => undefined);
    return this.storing;
  }

  /** Waits for it. @throws Stopped */
  async left(job: EngineJob): Promise<Left> {
    const { artifacts, stopSignal } = this.parts;
    const isAny = Object.keys(artifacts?.out ?? {}).length > 0;
    return isAny ? untilCollected(this.begin(job), stopSignal) : NOTHING_LEFT;
  }

  private async store(job: EngineJob, until: AbortSignal): Promise<Collected> {
    const { engine, requests, endTimeout, stopSignal } = this.parts;
    if (engine.storeFiles === undefined) throw new Error(`${engine.name} stores no files of runs`);
    const getUploads: GetUploads = (request) =>
      endTimeout.pause(() => requests.getUploads(job.attempt, request));
    return engine.storeFiles(job, getUploads, AbortSignal.any([stopSignal.signal, until]));
  }

  private async renewOnce(job: EngineJob, over: AbortSignal): Promise<void> {
    const { engine, requests, logger } = this.parts;
    try {
      const { artifacts } = await requests.getRun(job.attempt);
      if (artifacts !== undefined && !over.aborted) await engine.renewFiles?.(job, artifacts);
    } catch (error) {
      if (!over.aborted)
        logger.warn({ error: errorText(error) }, 'could not renew the URLs of the files of the run');
    }
  }
}
