import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { withTimeout } from '@longshore/common/timeout';
import { engineTime, type ContainerTimes } from '../../execution/container-times.js';
import { PARTIAL_MS, splitLines } from '../log-lines.js';
import { readChunks } from '../output-chunks.js';
import type { RunFolder } from './run-folders.js';
import type { RunProcesses } from './run-processes.js';
import type { Sentinel } from './sentinel.js';
import type { ContainerExit, LogLine, RunningContainer } from '../runtime.js';

/** A program's child process, its output piped to the worker. */
export type PipedChild = ChildProcess & { readonly stdout: Readable; readonly stderr: Readable };

export interface ProgramParts {
  /** Spawned detached, so that it leads its own group. */
  readonly child: PipedChild;
  readonly processes: RunProcesses;
  readonly folder: RunFolder;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  /** Runs since before the start of the program. */
  readonly sentinel: Sentinel;
  /** Called once, when the program has ended: ends what it has started. Never rejects. */
  readonly onEnd: () => Promise<void>;
}

/** A started program of the process runtime: the leader of a process group. What it started ends with it. */
export class ProcessContainer implements RunningContainer {
  readonly lines: AsyncIterable<LogLine>;
  readonly exit: Promise<ContainerExit>;
  /** Resolves with the exit code. */
  private readonly ended: Promise<number>;
  private hasEnded = false;
  private finishedAtMs: number | null = null;

  constructor(private readonly parts: ProgramParts) {
    const { child, sentinel, onEnd } = parts;
    this.ended = new Promise<number>((resolve) => {
      child.once('exit', (code, signal) => {
        this.hasEnded = true;
        this.finishedAtMs = Date.now();
        const endCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
        // As in a container, nothing outlives the first process.
        void onEnd().then(() => resolve(endCode));
      });
    });
    this.exit = this.ended.then(async (exitCode) => {
      await sentinel.check();
      return { exitCode, outOfMemory: false };
    });
    this.exit.catch(() => undefined);
    const sources = [
      { stream: 'stdout', readable: child.stdout },
      { stream: 'stderr', readable: child.stderr },
    ] as const;
    this.lines = splitLines(readChunks<LogLine['stream']>(sources, this.ended), PARTIAL_MS);
  }

  times(): ContainerTimes {
    return { startedAt: engineTime(this.parts.startedAtMs), finishedAt: engineTime(this.finishedAtMs) };
  }

  async stop(graceSeconds: number): Promise<void> {
    if (this.hasEnded) return;
    this.parts.processes.signal('SIGTERM');
    await withTimeout(graceSeconds * 1000, this.ended, null);
    if (!this.hasEnded) this.parts.processes.signal('SIGKILL');
    await this.ended;
  }

  readOutputs(): Promise<Buffer | null> {
    return this.parts.folder.readOutputs();
  }

  async remove(): Promise<void> {
    await this.stop(0);
    await this.parts.folder.remove();
  }
}
