import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import type { EnginePause } from '@longshore/worker/claims/engine-pause';
import type { ExecutionTrace } from '@longshore/worker/execution/execution-trace';
import type { StopSignal } from '@longshore/worker/execution/stop-signal';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import type { WorkerContext } from '@longshore/worker/worker-context';
import type { Engine, EngineJob, JobKey, JobSpec } from '../engine.js';

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
  readSecrets(key: JobKey): Promise<Readonly<Record<string, string>> | null> {
    const read = () => this.stopSignal.abortable(this.parts.engine.readSecrets(key));
    return this.untilAnswered('read the secrets of the job', read);
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
        if (!(error instanceof EngineFault)) throw error;
        this.logger.warn({ error: error.message }, `could not ${what}, retrying`);
        onFault(error.message);
      }
      await clock.sleep(backoff.nextMs(), this.stopSignal.signal);
    }
  }
}
