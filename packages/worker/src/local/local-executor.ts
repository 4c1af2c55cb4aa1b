import type { Capability } from '@longshore/client/constants';
import { Capacity, CapacityQueue } from '../claims/capacity.js';
import { errorText } from '@longshore/common/errors';
import { GpuWatch } from '../claims/gpu-watch.js';
import type { GpuReading } from '../claims/resources.js';
import { claimedAgain } from '../execution/adoption.js';
import { repeat } from '../process/clock.js';
import { EnginePause } from '../claims/engine-pause.js';
import type { Executor, ExecutorHost } from '../execution/executor.js';
import type { RunExecution } from '../execution/run-execution.js';
import type { FoundContainer, Runtime } from '../runtime/runtime.js';
import type {
  ClaimedRun,
  ContainerEngine,
  EngineLoad,
  LogPosition,
  Resources,
  RunView,
} from '../service-api/service-api.js';
import { ContainerExecution, type ContainerParts } from './container-execution.js';
import { LeftoverCleanup } from './leftover-cleanup.js';
import { LocalRecovery } from './local-recovery.js';

/** Interval between questions to the engine about the limits that it keeps, in milliseconds. */
const LIMITS_MS = 300_000;

const LIMITS = ['ram_limit', 'cpu_limit', 'pids_limit'] as const;

/** The service's limit of runs in a heartbeat. */
const MOST_RUNS = 1000;

export interface LocalExecutorOptions {
  readonly runtime: Runtime;
  /** Of its GPUs, `gpus` tells. */
  readonly resources: Resources;
  /** What nvidia-smi says; never rejects. */
  readonly readGpus: () => Promise<GpuReading>;
  /** Ids of the GPUs that the worker may offer; null: all. */
  readonly gpuIds: readonly number[] | null;
  /** Whether runs with `ram_mb` are taken only while the engine keeps limits of memory. */
  readonly needsRamLimit: boolean;
  /** Limit of concurrent runs; null: what the resources allow. */
  readonly maxRuns: number | null;
  /** Whether an earlier process had the worker's id on this machine. */
  readonly isSuccessor: boolean;
  /** Where the files of runs come from. */
  readonly files: ContainerParts['files'];
}

/** Executes runs in containers of this machine, within its resources. */
export class LocalExecutor implements Executor {
  readonly name: string;
  readonly capabilities: readonly Capability[];
  readonly containerEngine: ContainerEngine | null;
  readonly tags = [];
  private readonly queue: CapacityQueue;
  private readonly enginePause: EnginePause;
  private readonly leftovers: LeftoverCleanup;
  private readonly gpus: GpuWatch;
  private offered: Resources;
  private readonly parts: ContainerParts;
  private readonly recovery: LocalRecovery;
  private readonly executions = new Set<RunExecution>();

  constructor(
    private readonly host: ExecutorHost,
    private readonly options: LocalExecutorOptions,
  ) {
    const { context, draining, onCapacityFreed } = host;
    const { runtime, resources, maxRuns, readGpus, gpuIds, isSuccessor, files } = options;
    this.name = runtime.name;
    this.capabilities = runtime.capabilities;
    this.containerEngine = runtime.containerEngine;
    this.offered = { ...resources, gpus: [] };
    this.queue = new CapacityQueue(new Capacity(this.offered, maxRuns ?? MOST_RUNS), onCapacityFreed);
    this.enginePause = new EnginePause({
      ...context,
      probe: () => runtime.probe(),
      onResume: onCapacityFreed,
      signal: draining,
    });
    this.leftovers = new LeftoverCleanup(context, runtime);
    this.gpus = new GpuWatch({
      ...context,
      read: readGpus,
      chosen: gpuIds,
      probe: (ids) => runtime.probeGpus(ids),
      onChange: () => this.offer(),
    });
    this.parts = {
      ...host,
      runtime,
      queue: this.queue,
      enginePause: this.enginePause,
      gpus: this.gpus,
      files,
    };
    this.recovery = new LocalRecovery(context, {
      runtime,
      isSuccessor,
      isExecuted: (runId, attempt) => [...this.executions].some((one) => one.executes(runId, attempt)),
      adopt: (runId, run, container, log) => this.adopt(runId, run, container, log),
      removeOthers: (signal) => this.leftovers.removeOwn(signal),
      onDone: onCapacityFreed,
    });
  }

  resources(): Resources {
    return this.offered;
  }

  load(): EngineLoad | null {
    return null;
  }

  hasCapacity(): boolean {
    const { inabilities } = this.host.context;
    return (
      inabilities.areTold &&
      this.recovery.isDone &&
      this.enginePause.allowsClaims &&
      this.queue.hasCapacity() &&
      this.executions.size < this.maxHeld()
    );
  }

  /** Ends that cannot be reported must not pile up: as many as runs that execute, or could if each had a core. */
  private maxHeld(): number {
    const { maxRuns, resources } = this.options;
    return 2 * (maxRuns ?? Math.max(resources.cpuCores, this.queue.capacity.running));
  }

  claimLimit(): undefined {
    return undefined;
  }

  execute(run: ClaimedRun): RunExecution {
    const execution = new ContainerExecution(this.parts, run);
    this.executions.add(execution);
    this.enginePause.recordClaim(execution);
    return execution;
  }

  private adopt(runId: string, run: RunView, found: FoundContainer | null, log: LogPosition): void {
    const left = { found, attempt: run.currentAttempt, log, isStarted: run.state === 'RUNNING' };
    const execution = new ContainerExecution(this.parts, claimedAgain(runId, run), left);
    this.executions.add(execution);
    this.host.adopt(execution);
  }

  onEnd(execution: RunExecution): void {
    this.executions.delete(execution);
    this.enginePause.recordEnd(execution);
  }

  async recover(signal: AbortSignal): Promise<void> {
    await this.recovery.recover(signal);
    await this.checkLimits();
    await this.gpus.check();
  }

  async upkeep(signal: AbortSignal): Promise<void> {
    const { clock } = this.host.context;
    await Promise.all([
      this.recovery.run(signal).then(() => this.leftovers.sweep(signal)),
      this.gpus.run(signal),
      repeat(clock, LIMITS_MS, signal, () => this.checkLimits()),
    ]);
  }

  /** Tells of the limits that the engine discards. Never rejects. */
  private async checkLimits(): Promise<void> {
    const { inabilities, logger } = this.host.context;
    try {
      const discarded = new Map(
        (await this.options.runtime.discardedLimits()).map(({ ability, message }) => [ability, message]),
      );
      for (const ability of LIMITS) {
        const message = discarded.get(ability);
        if (message === undefined) inabilities.clear(ability);
        else {
          if (!inabilities.has(ability)) logger.warn({ ability }, message);
          inabilities.set(ability, message);
        }
      }
      this.offer();
    } catch (error) {
      logger.debug({ error: errorText(error) }, 'the container engine does not say which limits it keeps');
    }
  }

  /** Offers what the machine is able to give now. */
  private offer(): void {
    const { resources, needsRamLimit } = this.options;
    const isUnlimited = needsRamLimit && this.host.context.inabilities.has('ram_limit');
    const ramMb = isUnlimited ? 0 : resources.ramMb;
    this.offered = { ...resources, ramMb, gpus: this.gpus.gpus };
    this.queue.offer(this.offered);
  }
}
