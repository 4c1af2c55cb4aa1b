import type { Capability } from '@longshore/client/constants';
import { Capacity, CapacityQueue } from '../claims/capacity.js';
import { EnginePause } from '../claims/engine-pause.js';
import type { Executor, ExecutorHost, RunExecution } from '../execution/run-execution.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ClaimedRun, ContainerEngine, EngineLoad, Resources } from '../service-api/service-api.js';
import { ContainerExecution, type ContainerParts } from './container-execution.js';
import { LeftoverCleanup } from './leftover-cleanup.js';

/** The service's limit of runs in a heartbeat. */
const MOST_RUNS = 1000;

export interface LocalExecutorOptions {
  readonly runtime: Runtime;
  readonly resources: Resources;
  /** Limit of concurrent runs; null: what the resources allow. */
  readonly maxRuns: number | null;
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
  private readonly parts: ContainerParts;
  private held = 0;

  constructor(
    host: ExecutorHost,
    private readonly options: LocalExecutorOptions,
  ) {
    const { context, draining, onCapacityFreed } = host;
    const { runtime, resources, maxRuns } = options;
    this.name = runtime.name;
    this.capabilities = runtime.capabilities;
    this.containerEngine = runtime.containerEngine;
    this.queue = new CapacityQueue(new Capacity(resources, maxRuns ?? MOST_RUNS), onCapacityFreed);
    this.enginePause = new EnginePause({
      ...context,
      probe: () => runtime.probe(),
      onResume: onCapacityFreed,
      signal: draining,
    });
    this.leftovers = new LeftoverCleanup(context, runtime);
    this.parts = { ...host, runtime, queue: this.queue, enginePause: this.enginePause };
  }

  resources(): Resources {
    return this.options.resources;
  }

  load(): EngineLoad | null {
    return null;
  }

  hasCapacity(): boolean {
    return this.enginePause.allowsClaims && this.queue.hasCapacity() && this.held < this.maxHeld();
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
    this.held += 1;
    this.enginePause.recordClaim(execution);
    return execution;
  }

  onEnd(execution: RunExecution): void {
    this.held -= 1;
    this.enginePause.recordEnd(execution);
  }

  recover(signal: AbortSignal): Promise<void> {
    return this.leftovers.removeOwn(signal);
  }

  upkeep(signal: AbortSignal): Promise<void> {
    return this.leftovers.sweep(signal);
  }
}
