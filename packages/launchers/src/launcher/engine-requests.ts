import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import type { EnginePause } from '@longshore/worker/claims/engine-pause';
import type { ExecutionTrace } from '@longshore/worker/execution/execution-trace';
import type { StopSignal } from '@longshore/worker/execution/stop-signal';
import { EngineFault, type LogLine } from '@longshore/worker/runtime/runtime';
import type { WorkerContext } from '@longshore/worker/worker-context';
import type { Engine, EngineJob, JobKey, JobMemo, JobSpec } from './engine.js';
import type { Clock } from '@longshore/worker/process/clock';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

interface RequestParts {
  readonly context: WorkerContext;
  readonly engine: Engine;
  readonly enginePause: EnginePause;
}

/** What an execution asks of the engine, repeated until the engine answers or the execution is stopped. */
export class EngineRequests {
  constructor(
    private readonly parts: RequestParts,
    private readonly stopSignal: StopSignal,
    private readonly trace: ExecutionTrace,
    private readonly logger: Logger,
  ) {}

  /**
   * Never waits for the stop signal while a submission is under way: the job is removed after it.
   * @throws Stopped; RunFault
   */
  async submit(spec: JobSpec): Promise<EngineJob> {
    const { engine, enginePause } = this.parts;
    const submit = () => this.trace.step('submit', () => engine.submit(spec));
    const job = await this.untilAnswered('submit the job', submit, (reason) =>
      enginePause.recordFault(reason),
    );
    enginePause.recordStart();
    return job;
  }

  /** Ends the job of another attempt, regardless of which launcher submitted it, so that two never work on the run. @throws Stopped */
  async removeOther(job: EngineJob): Promise<void> {
    const { engineId, attempt } = job;
    this.logger.warn({ engineId, attempt }, 'ending the job of another attempt of the run');
    const remove = () => this.stopSignal.abortable(this.parts.engine.remove(job));
    await this.untilAnswered('end the job of another attempt', remove);
  }

  /** As `Engine.readSecrets`. @throws Stopped */
  readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    const read = () => this.stopSignal.abortable(this.parts.engine.readSecrets(key));
    return this.untilAnswered('read the secrets of the job', read);
  }

  /** As `Engine.readMemo`. @throws Stopped */
  readMemo(key: JobKey): Promise<JobMemo | null> {
    const read = () => this.stopSignal.abortable(this.parts.engine.readMemo(key));
    return this.untilAnswered('read what is known of the job', read);
  }

  /** @param what for the worker's log, after "could not" */
  private async untilAnswered<T>(
    what: string,
    request: () => Promise<T>,
    onFault: (reason: string) => void = () => undefined,
  ): Promise<T> {
    const { clock, random } = this.parts.context;
    const backoff = new Backoff(RETRY, random);
    for (;;) {
      this.stopSignal.check();
      try {
        return await request();
      } catch (error) {
        // What was interrupted is no fault of the engine.
        this.stopSignal.check();
        if (!(error instanceof EngineFault)) throw error;
        this.logger.warn({ error: error.message }, `could not ${what}, retrying`);
        onFault(error.message);
      }
      await clock.sleep(backoff.nextMs(), this.stopSignal.signal);
    }
  }
}

/** Interval between checks of what an engine has given, in milliseconds. */
const POLL_INTERVAL_MS = 30_000;

/** Timeout while the engine answers, in milliseconds. */
const TIMEOUT_MS = 300_000;

/**
 * Limits the wait for the remaining log and the outputs of an ended job: an engine may answer and never give them, as when
 * only the node of the job is unavailable. Outages of the engine and time in which the reader of the log is busy do not count.
 */
export class EndTimeout {
  /** Lines so far. */
  private given = 0;
  private isReaderBusy = false;
  /** Tasks of this process that the engine waits for. */
  private pauses = 0;

  constructor(
    private readonly engine: Engine,
    private readonly clock: Clock,
  ) {}

  /** The lines; one that comes shows that the engine gives what there is. */
  async *watch(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine> {
    for await (const line of lines) {
      this.given += 1;
      this.isReaderBusy = true;
      yield line;
      this.isReaderBusy = false;
    }
  }

  /** The engine waits for a task of this process meanwhile. */
  async pause<T>(task: () => Promise<T>): Promise<T> {
    this.pauses += 1;
    try {
      return await task();
    } finally {
      this.pauses -= 1;
    }
  }

  /**
   * @param what the task waits for
   * @throws EngineFault when the engine has not given it for {@link TIMEOUT_MS}; the signal of the task is then aborted
   */
  async limit<T>(what: string, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const minutes = TIMEOUT_MS / 60_000;
    const end = this.untilTimeout(over.signal).then(() => {
      if (!over.signal.aborted)
        throw new EngineFault(`${this.engine.name} has not given ${what} for ${minutes} minutes`);
      return new Promise<never>(() => undefined);
    });
    try {
      return await Promise.race([task(over.signal), end]);
    } finally {
      over.abort();
    }
  }

  private async untilTimeout(signal: AbortSignal): Promise<void> {
    let silentMs = 0;
    while (silentMs < TIMEOUT_MS) {
      const before = this.given;
      await this.clock.sleep(POLL_INTERVAL_MS, signal);
      if (signal.aborted) return;
      const isSilent = !this.isReaderBusy && this.pauses === 0 && this.given === before;
      silentMs = isSilent && (await this.answers()) ? silentMs + POLL_INTERVAL_MS : 0;
    }
  }

  private async answers(): Promise<boolean> {
    try {
      await this.engine.probe();
      return true;
    } catch {
      return false;
    }
  }
}
