import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { withTimeout } from '@longshore/common/timeout';
import { engineTime, type ContainerTimes } from '../../execution/container-times.js';
import { PARTIAL_MS, splitLines } from '../log-lines.js';
import { readChunks } from '../output-chunks.js';
import { killMarked, signalGroup } from './process-table.js';
import type { RunFolder } from './run-folders.js';
import type { Sentinel } from './sentinel.js';
import type { ContainerExit, LogLine, RunningContainer } from '../runtime.js';

/** A program's child process, its output piped to the worker. */
export type PipedChild = ChildProcess & { readonly stdout: Readable; readonly stderr: Readable };

/** A started program of the process runtime: the leader of a process group. What it started ends with it. */
export class ProcessContainer implements RunningContainer {
  readonly lines: AsyncIterable<LogLine>;
  readonly exit: Promise<ContainerExit>;
  /** Resolves with the exit code. */
  private readonly ended: Promise<number>;
  private hasEnded = false;
  private finishedAtMs: number | null = null;

  /**
   * @param child spawned detached, so that it leads its own group
   * @param startedAtMs milliseconds since 1970
   * @param mark environment entry of the processes of this run
   * @param onEnd called once, when the program and what it started have ended
   * @param sentinel runs since before the start of the program
   */
  constructor(
    child: PipedChild,
    private readonly pid: number,
    private readonly folder: RunFolder,
    private readonly startedAtMs: number,
    mark: string,
    onEnd: () => void,
    sentinel: Sentinel,
  ) {
    this.ended = new Promise<number>((resolve) => {
      child.once('exit', (code, signal) => {
        this.hasEnded = true;
        this.finishedAtMs = Date.now();
        // As in a container, nothing outlives the first process.
        signalGroup(pid, 'SIGKILL');
        const endCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
        void killMarked(mark).finally(() => {
          onEnd();
          resolve(endCode);
        });
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
    return { startedAt: engineTime(this.startedAtMs), finishedAt: engineTime(this.finishedAtMs) };
  }

  async stop(graceSeconds: number): Promise<void> {
    if (this.hasEnded) return;
    signalGroup(this.pid, 'SIGTERM');
    await withTimeout(graceSeconds * 1000, this.ended, null);
    if (!this.hasEnded) signalGroup(this.pid, 'SIGKILL');
    await this.ended;
  }

  readOutputs(): Promise<Buffer | null> {
    return this.folder.readOutputs();
  }

  async remove(): Promise<void> {
    await this.stop(0);
    await this.folder.remove();
  }
}
