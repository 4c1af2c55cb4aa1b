import type { Capability } from '@longshore/client/constants';
import {
  neededCapabilities,
  type ClaimedRun,
  type ContainerEngine,
  type EngineLoad,
  type Resources,
} from '../service-api/service-api.js';
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
  /** Null: it has none, or it is not known. */
  readonly containerEngine: ContainerEngine | null;
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

/** The capabilities that a run needs and an executor lacks, as one sentence; null: it lacks none. */
export function missingCapabilities(
  { name, capabilities }: { readonly name: string; readonly capabilities: readonly string[] },
  claimed: ClaimedRun,
): string | null {
  const missing = neededCapabilities(claimed).filter((needed) => !capabilities.includes(needed));
  return missing.length === 0
    ? null
    : `The run needs ${missing.join(', ')}, which the runtime ${name} of this worker does not support`;
}
