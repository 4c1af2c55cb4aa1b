import type { TraceContext } from '@longshore/common/tracing/trace-context';

/** What a run asks of the hardware; 0 means "no requirement, no limit". */
export interface ContainerLimits {
  /** Memory limit in MB (2^20 bytes). */
  readonly ramMb: number;
  /** CPUs. */
  readonly cpu: number;
  /** Index of the GPU that the service chose, or null. */
  readonly gpuId: number | null;
  /** GPU memory in MB; above 0 without a gpuId means "any GPU". */
  readonly vramMb: number;
}

/** One container to run: an attempt of a run. */
export interface ContainerSpec {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly image: string;
  /** Host folder that holds `input.json` and `output.json`; nothing else of the host is visible to the container. */
  readonly folder: string;
  readonly limits: ContainerLimits;
  /** Where in a trace the container belongs, which it is told as TRACEPARENT; null: nobody traces the run. */
  readonly trace: TraceContext | null;
}

/** One line that a container printed, without its line end. */
export interface LogLine {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
  /** Only of a line that is too long to be handed on whole: its start, or what goes on where its stream's last text ended. */
  readonly part?: 'start' | 'rest';
}

/** How a container ended. */
export interface ContainerExit {
  /** 128 + signal when a signal ended it. */
  readonly exitCode: number;
  /** True when the engine says that the memory limit ended it. */
  readonly outOfMemory: boolean;
}

/** A container that has been started. */
export interface RunningContainer {
  /**
   * Lines of both streams in order of arrival, to be read once. Reading slowly slows the container down (back-pressure)
   * instead of filling the worker's memory. Ends when the container has ended and everything it printed was read.
   */
  readonly lines: AsyncIterable<LogLine>;
  /** Resolves when the container has ended, whoever ended it; rejects only when the engine cannot tell. */
  readonly exit: Promise<ContainerExit>;
  /** Asks it to end and forces it after `graceSeconds`. Harmless when it has ended. */
  stop(graceSeconds: number): Promise<void>;
  /** Removes what the container left in the engine. Harmless when it is gone. */
  remove(): Promise<void>;
}

/** A place where containers are executed: a Docker engine, or plain child processes. */
export interface Runtime {
  readonly name: 'docker' | 'process';
  /**
   * Gets the newest image.
   * @throws RunFault when there is no such image
   * @throws Error whose message is fit for a run's error_message when it is not to be had now
   */
  pull(image: string, signal: AbortSignal): Promise<void>;
  /**
   * Creates and starts the container.
   * @throws RunFault when the image or what the run asks for cannot be started anywhere
   * @throws Error whose message is fit for a run's error_message when this machine cannot start it now
   */
  start(spec: ContainerSpec): Promise<RunningContainer>;
  /** Removes what earlier lives of the same worker id left behind; answers how many. */
  removeLeftovers(): Promise<number>;
}
