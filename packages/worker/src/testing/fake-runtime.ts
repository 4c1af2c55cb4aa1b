import { Readable } from 'node:stream';
import { CAPABILITIES, type Capability } from '@longshore/client/constants';
import { graceCapabilities } from '@longshore/common/capabilities';
import {
  NO_TIMES,
  NOTHING_READ,
  type AdoptedContainer,
  type Adoption,
  type ContainerTimes,
  type ContainerExit,
  type ContainerSpec,
  type EndedFiles,
  type FoundContainer,
  type KeptContainer,
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
  /** Of one that is adopted. */
  kept: KeptContainer | null = null;
  readonly exit: Promise<ContainerExit>;
  lines: AsyncIterable<LogLine> = this.read();
  /** What its program has written, by path. */
  readonly files = new Map<string, Buffer>();
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

  printLine(line: LogLine): void {
    this.printed.push(line);
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

  async readFiles<T>(task: (files: EndedFiles) => Promise<T>): Promise<T> {
    const { files } = this;
    const open: EndedFiles['open'] = async (path) => {
      const content = files.get(path);
      return content === undefined ? null : { bytes: content.length, content: Readable.from([content]) };
    };
    const list: EndedFiles['list'] = async function* (folder) {
      for (const path of files.keys()) if (path.startsWith(`${folder}/`)) yield path.slice(folder.length + 1);
    };
    return task({ list, open });
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

/** Cursors of a fake container: the number of bytes of stdout. */
const CURSORS: KeptContainer['cursors'] = {
  write: ({ stdout }) => String(stdout),
  read: (cursor) => ({ stdout: Number(cursor), stderr: 0 }),
};

export class FakeRuntime implements Runtime {
  readonly name = 'process';
  readonly containerEngine = null;
  readonly containers: FakeContainer[] = [];
  readonly pulls: string[] = [];
  /** Images of claimed runs. */
  readonly kept: string[] = [];
  readonly logins: (RegistryLogin | null)[] = [];
  leftoversRemoved = 0;
  /** Containers of an earlier process, which have none of the lines that it stored. */
  left: FakeContainer[] = [];
  /** What they were created with. */
  leftSecrets: Readonly<Record<string, string>> = {};
  adoptions: Adoption[] = [];
  onFind: () => Promise<void> = async () => undefined;
  onAdopt: () => Promise<void> = async () => undefined;
  onRemoveLeftovers: () => Promise<void> = async () => undefined;
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

  /** Adds a container that an earlier process has started. */
  leave(spec: ContainerSpec): FakeContainer {
    const container = new FakeContainer(spec);
    container.kept = { id: `id of ${spec.runId}`, cursors: CURSORS };
    this.left.push(container);
    return container;
  }

  async findLeft(): Promise<readonly FoundContainer[]> {
    await this.onFind();
    const foreign = this.abandoned.map(([runId, attempt]) => ({ runId, attempt, id: runId, isOwn: false }));
    const own = this.left.map(({ spec: { runId, attempt } }) => {
      return { runId, attempt, id: `id of ${runId}`, isOwn: true };
    });
    return [...foreign, ...own];
  }

  async removeFound({ runId }: FoundContainer): Promise<void> {
    for (const container of this.left) if (container.spec.runId === runId) await container.remove();
  }

  async adopt({ runId }: FoundContainer, adoption: Adoption): Promise<AdoptedContainer> {
    await this.onAdopt();
    const container = this.left.find(({ spec }) => spec.runId === runId);
    if (container === undefined) throw new Error('the container is gone');
    this.adoptions.push(adoption);
    this.containers.push(container);
    const stored = adoption.cursor === undefined ? NOTHING_READ : CURSORS.read(adoption.cursor);
    const { signedQueries } = container.spec;
    return { container, secrets: this.leftSecrets, signedQueries, stored: stored ?? NOTHING_READ };
  }

  async removeLeftovers(): Promise<number> {
    await this.onRemoveLeftovers();
    this.leftoversRemoved += 1;
    const others = this.left.filter((container) => !this.containers.includes(container));
    for (const container of others) await container.remove();
    return others.length;
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
