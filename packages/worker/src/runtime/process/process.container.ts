import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { withTimeout } from '@longshore/common/timeout';
import {
  engineTime,
  type ContainerTimes,
  type ContainerExit,
  type EndedFiles,
  type LogLine,
  type RunningContainer,
} from '../runtime.js';
import { PARTIAL_MS, splitLines, readChunks } from '../log-lines.js';
import type { RunFolder } from './run-folders.js';
import type { RunProcesses } from './process-table.js';

/** A program's child process, its output piped to the worker. */
export type PipedChild = ChildProcess & { readonly stdout: Readable; readonly stderr: Readable };

interface ProgramParts {
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
  readonly warnings = [];
  readonly kept = null;
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

  readFiles<T>(task: (files: EndedFiles) => Promise<T>): Promise<T> {
    return task(this.parts.folder.files);
  }

  async remove(): Promise<void> {
    await this.stop(0);
    await this.parts.folder.remove();
  }
}

/** How long after the end of a program the same signal may take to end the sentinel, in milliseconds. */
const SAME_SIGNAL_MS = 50;

/**
 * A process that does nothing beside the programs of a worker. A signal that ends it was sent to all that the worker started:
 * systemd and other supervisors do so when they stop a service. The exit code of a program does not tell that.
 */
export class Sentinel {
  private child: ChildProcess | null = null;

  /** Starts it unless it runs. It ends with the worker. */
  start(): void {
    if (this.child !== null && this.child.exitCode === null && this.child.signalCode === null) return;
    const child = spawn('cat', { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    // Without it, ends of programs count as their own.
    child.on('error', () => undefined);
    child.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    this.child = child;
  }

  /** @throws Error fit for a run's error_message when a signal ended it */
  async check(): Promise<void> {
    const { child } = this;
    if (child === null) return;
    await sleep(SAME_SIGNAL_MS);
    if (child.signalCode !== null)
      throw new Error(`The program ended when all processes of the worker were sent ${child.signalCode}`);
  }
}
