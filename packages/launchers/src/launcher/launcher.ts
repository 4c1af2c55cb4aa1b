import type { Capability } from '@longshore/client/constants';
import { EnginePause } from '@longshore/worker/claims/engine-pause';
import { claimedAgain } from '@longshore/worker/execution/adoption';
import type { Executor, ExecutorHost } from '@longshore/worker/execution/executor';
import type { RunExecution } from '@longshore/worker/execution/run-execution';
import type { WorkerSettings } from '@longshore/worker/settings/worker-settings';
import { ImagePolicy } from '@longshore/worker/runtime/docker/images/image-policy';
import type { ClaimedRun, EngineLoad, Resources, RunView } from '@longshore/worker/service-api/service-api';
import type { Engine, EngineJob } from './engine.js';
import { JobExecution, type JobParts } from './job-execution.js';
import { JobSweep } from './job-sweep.js';
import { whenAborted } from '@longshore/worker/process/clock';

/** The service's limit of runs in a heartbeat. */
const MAX_RUNS = 1000;

/** Runs of one claim, at most. */
const MAX_CLAIMED = 100;

/** The service's limit of GPUs of a worker. */
const MAX_GPUS = 64;

export type LauncherSettings = Pick<
  WorkerSettings,
  'maxRuns' | 'maxPending' | 'cpuCores' | 'ramMb' | 'allowedImages'
>;

/** Submits each claimed run as one job to an engine, and follows it. The engine must be open. */
export class Launcher implements Executor {
  readonly name: string;
  readonly capabilities: readonly Capability[];
  readonly tags: readonly string[];
  readonly containerEngine = null;
  private readonly executions = new Set<JobExecution>();
  private readonly enginePause: EnginePause;
  private readonly parts: JobParts;
  private readonly sweep: JobSweep;

  constructor(
    private readonly host: ExecutorHost,
    private readonly engine: Engine,
    private readonly settings: LauncherSettings,
  ) {
    const { context, draining, onCapacityFreed } = host;
    this.name = engine.name;
    this.capabilities = engine.capabilities;
    this.tags = engine.tags;
    this.enginePause = new EnginePause({
      ...context,
      probe: () => engine.probe(),
      onResume: onCapacityFreed,
      signal: draining,
    });
    this.parts = {
      ...host,
      engine,
      enginePause: this.enginePause,
      // The nodes pull, so only they know which addresses are local to them.
      policy: new ImagePolicy({ allowedImages: settings.allowedImages, localRegistries: true }),
      onRunning: onCapacityFreed,
    };
    this.sweep = new JobSweep(context, {
      engine,
      isExecuted: ({ runId, attempt }) => [...this.executions].some((one) => one.executes(runId, attempt)),
      adopt: (job, run) => this.adopt(job, run),
    });
  }

  resources(): Resources {
    const { cpuCores, ramMb, gpus } = this.engine.capacity();
    return {
      cpuCores: this.settings.cpuCores ?? wholeOf(cpuCores),
      ramMb: this.settings.ramMb ?? wholeOf(ramMb),
      gpus: gpus.slice(0, MAX_GPUS),
    };
  }

  load(): EngineLoad {
    const own = this.engine.list().filter(({ workerId }) => workerId === this.host.context.workerId);
    const count = (kind: EngineJob['status']['kind']) =>
      own.filter(({ status }) => status.kind === kind).length;
    return { name: this.name, pending: count('pending'), running: count('running') };
  }

  hasCapacity(): boolean {
    return this.enginePause.allowsClaims && this.room() > 0;
  }

  claimLimit(): number {
    return Math.max(1, Math.min(MAX_CLAIMED, this.room()));
  }

  private room(): number {
    const preparing = [...this.executions].filter(({ isPreparing }) => isPreparing).length;
    const { maxRuns, maxPending } = this.settings;
    const roomToRun = Math.min(maxRuns ?? MAX_RUNS, MAX_RUNS) - this.executions.size;
    return Math.min(roomToRun, maxPending - this.load().pending - preparing);
  }

  execute(run: ClaimedRun): RunExecution {
    const execution = new JobExecution(this.parts, run);
    this.executions.add(execution);
    this.enginePause.recordClaim(execution);
    return execution;
  }

  onEnd(execution: RunExecution): void {
    for (const ended of this.executions) {
      if (ended === execution) this.executions.delete(ended);
    }
    this.enginePause.recordEnd(execution);
  }

  recover(signal: AbortSignal): Promise<void> {
    return this.sweep.recover(signal);
  }

  upkeep(signal: AbortSignal): Promise<void> {
    // A request to the service may take its time.
    return Promise.race([whenAborted(signal), this.sweep.run(signal)]);
  }

  private adopt(job: EngineJob, run: RunView): void {
    const adopted = { job, isStarted: run.state === 'RUNNING', mustStartInTime: run.mustStartInTime };
    const execution = new JobExecution(this.parts, claimedAgain(job.runId, run), adopted);
    this.executions.add(execution);
    this.host.adopt(execution);
  }
}

/** Heartbeats have whole numbers. */
function wholeOf(amount: number): number {
  return Math.max(0, Math.floor(amount));
}
