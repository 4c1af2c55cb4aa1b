import { CAPABILITIES, type Capability } from '@longshore/client/constants';
import { graceCapabilities } from '@longshore/common/capabilities';
import {
  NO_TIMES,
  type ContainerTimes,
  type ContainerExit,
  type ContainerSpec,
  type LogLine,
  type RunningContainer,
  type Runtime,
} from '../runtime/runtime.js';
import { templateText } from '../runtime/outputs.js';
import type { RegistryLogin, Unable } from '../service-api/service-api.js';

/** A container that a test controls. */
export class FakeContainer implements RunningContainer {
  stopped = false;
  removed = false;
  /** Number of lines that the worker has read. */
  linesRead = 0;
  ranAt: ContainerTimes = NO_TIMES;
  warnings: readonly string[] = [];
  readonly exit: Promise<ContainerExit>;
  lines: AsyncIterable<LogLine> = this.read();
  private readonly printed: LogLine[] = [];
  private outputs: string;
  private ended = false;
  private wake: () => void = () => undefined;
  private resolveExit: (exit: ContainerExit) => void = () => undefined;

  constructor(readonly spec: ContainerSpec) {
    this.outputs = templateText(spec.outputTemplate);
    this.exit = new Promise((resolve) => {
      this.resolveExit = resolve;
    });
  }

  print(...lines: string[]): void {
    this.printed.push(...lines.map((text): LogLine => ({ stream: 'stdout', text })));
    this.wake();
  }

  /** Prints one line in parts. */
  printParts(...texts: string[]): void {
    const partOf = (index: number): LogLine['part'] =>
      index === 0 ? 'start' : index === texts.length - 1 ? 'end' : 'rest';
    this.printed.push(
      ...texts.map((text, index): LogLine => ({ stream: 'stdout', text, part: partOf(index) })),
    );
    this.wake();
  }

  times(): ContainerTimes {
    return this.ranAt;
  }

  writeOutputs(text: string): void {
    this.outputs = text;
  }

  async readOutputs(): Promise<Buffer | null> {
    return Buffer.from(this.outputs);
  }

  end(exitCode = 0, outOfMemory = false): void {
    this.ended = true;
    this.resolveExit({ exitCode, outOfMemory });
    this.wake();
  }

  async stop(_graceSeconds: number): Promise<void> {
    this.stopped ||= !this.ended;
    this.end(143);
  }

  async remove(): Promise<void> {
    this.removed = true;
  }

  private async *read(): AsyncGenerator<LogLine> {
    for (;;) {
      for (let line = this.printed.shift(); line !== undefined; line = this.printed.shift()) {
        this.linesRead += 1;
        yield line;
      }
      if (this.ended) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

export class FakeRuntime implements Runtime {
  readonly name = 'process';
  readonly containerEngine = null;
  readonly containers: FakeContainer[] = [];
  readonly pulls: string[] = [];
  /** Images of claimed runs. */
  readonly kept: string[] = [];
  readonly logins: (RegistryLogin | null)[] = [];
  leftoversRemoved = 0;
  /** Containers of another lock: run and attempt. */
  abandoned: [string, number][] = [];
  probes = 0;
  /** Containers that were not started because their run was stopped. */
  refused = 0;
  onProbe: () => Promise<void> = async () => undefined;
  onProbeGpus: (ids: readonly number[]) => Promise<void> = async () => undefined;
  /** What its engine discards. */
  discards: readonly Unable[] = [];
  onPull: (image: string, signal: AbortSignal) => Promise<void> = async () => undefined;
  onStart: (container: FakeContainer) => void | Promise<void> = () => undefined;

  constructor(readonly capabilities: readonly Capability[] = [...CAPABILITIES, ...graceCapabilities(3600)]) {}

  keep(image: string): () => void {
    this.kept.push(image);
    return () => void this.kept.splice(this.kept.indexOf(image), 1);
  }

  async pull(image: string, signal: AbortSignal, login: RegistryLogin | null = null): Promise<string> {
    this.pulls.push(image);
    this.logins.push(login);
    await this.onPull(image, signal);
    return image;
  }

  async removeUnusedImages(): Promise<void> {}

  async start(spec: ContainerSpec, signal?: AbortSignal): Promise<RunningContainer> {
    const container = new FakeContainer(spec);
    this.containers.push(container);
    await this.onStart(container);
    if (signal?.aborted === true) this.refused += 1;
    signal?.throwIfAborted();
    return container;
  }

  async removeLeftovers(): Promise<number> {
    this.leftoversRemoved += 1;
    return 0;
  }

  async removeAbandoned(isLost: (runId: string, attempt: number) => Promise<boolean>): Promise<number> {
    const kept: [string, number][] = [];
    for (const [runId, attempt] of this.abandoned) {
      if (!(await isLost(runId, attempt))) kept.push([runId, attempt]);
    }
    this.abandoned = kept;
    return kept.length;
  }

  async probeGpus(ids: readonly number[]): Promise<void> {
    await this.onProbeGpus(ids);
  }

  async discardedLimits(): Promise<readonly Unable[]> {
    return this.discards;
  }

  async probe(): Promise<void> {
    this.probes += 1;
    await this.onProbe();
  }
}
