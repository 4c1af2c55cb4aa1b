import type { Capability } from '@longshore/client/constants';
import type { ClaimedRun, EngineLoad, Resources } from '../service-api/service-api.js';
import type { ExecutionParts, RunExecution } from './run-execution.js';

/** What a worker provides for its executor. */
export interface ExecutorHost extends ExecutionParts {
  /** Aborted when the worker shuts down: it claims nothing more. */
  readonly draining: AbortSignal;
  /** Reports that `hasCapacity` may have become true. */
  readonly onCapacityFreed: () => void;
  /** Runs an execution that follows no claim of this process. */
  readonly adopt: (execution: RunExecution) => void;
}

/** Executes the claimed runs of a worker: on this machine, or as jobs of an engine. */
export interface Executor {
  readonly name: string;
  readonly capabilities: readonly Capability[];
  /** Tags that heartbeats announce beside those of the settings. */
  readonly tags: readonly string[];
  /** What is offered to runs at this moment. */
  resources(): Resources;
  /** Null: there is no engine. */
  load(): EngineLoad | null;
  /** Whether another run may be claimed now. */
  hasCapacity(): boolean;
  /** Limit of runs that one claim may return; undefined: none. */
  claimLimit(): number | undefined;
  /** The execution of a claimed run, not running yet. */
  execute(run: ClaimedRun): RunExecution;
  /** Called when an execution has ended. */
  onEnd(execution: RunExecution): void;
  /** Takes care of what earlier processes with the worker's id left. Called once, before the first heartbeat and claim. */
  recover(signal: AbortSignal): Promise<void>;
  /** Work beside executions. Ends soon after the signal is aborted. */
  upkeep(signal: AbortSignal): Promise<void>;
}
