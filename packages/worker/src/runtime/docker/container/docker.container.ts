import { setTimeout as sleep } from 'node:timers/promises';
import { text } from 'node:stream/consumers';
import type Dockerode from 'dockerode';
import {
  engineTime,
  NO_TIMES,
  type ContainerTimes,
  EngineFault,
  RunFault,
  type ContainerExit,
  type EndedFiles,
  type KeptContainer,
  type LogLine,
  type RunningContainer,
} from '../../runtime.js';
import { readOutputFile } from './container-files.js';
import { EndEvents, KILLED, TOLD } from './end-events.js';
import { endedFiles } from './ended-files.js';
import { engineMessage, engineStatus, requestOf, withLimit } from '../engine/docker-engine.js';
import { ContainerOutput, settlesWithin, type ContainerEnd, type OutputOptions } from './container-output.js';
import type { WithOutputs } from '../places/outputs-access.js';
import { refusedOutputs } from '../../outputs.js';

/** Time limits of the calls about one container, in milliseconds. */
export interface ContainerTiming {
  /** Timeout of a call that the engine answers at once. */
  readonly callMs: number;
  /** Timeout of a call that sets up a container. */
  readonly startMs: number;
  /** Timeout of a `wait` call; then the state is inspected, in case the answer was lost. */
  readonly waitMs: number;
  /** How long the engine may be unreachable before the exit counts as unknown. */
  readonly outageMs: number;
  /** First pause after a failed call; it doubles up to 16 times as long. */
  readonly retryMs: number;
}

export const CONTAINER_TIMING: ContainerTiming = {
  callMs: 30_000,
  startMs: 120_000,
  waitMs: 60_000,
  outageMs: 300_000,
  retryMs: 250,
};

const REMOVE_TRIES = 6;

/** Time beyond the grace period after which a stop is followed by a kill, in milliseconds. */
const STOP_MARGIN_MS = 3_000;

/** How long a request to stop is open, at least, that has reached the engine, in milliseconds. */
const HELD_MS = 1_000;

/** The engine ended the container because it was stopped itself. */
class EngineStopped extends EngineFault {
  constructor() {
    super('The container engine stopped while the container was running, and the container with it');
  }
}

/**
 * Removes a container and its anonymous volumes, running or not. Idempotent.
 * @throws Error when the engine keeps refusing
 */
export async function removeContainer(
  container: Dockerode.Container,
  timing: ContainerTiming,
): Promise<void> {
  let pauseMs = timing.retryMs;
  for (let tries = 1; ; tries++) {
    try {
      await withLimit(timing.callMs, 'remove', (abortSignal) =>
        container.remove({ force: true, v: true, abortSignal }),
      );
      return;
    } catch (error) {
      if (engineStatus(error) === 404) return;
      if (tries === REMOVE_TRIES)
        throw new Error(`container not removed: ${engineMessage(error)}`, { cause: error });
    }
    await sleep(pauseMs);
    pauseMs *= 2;
  }
}

export interface DockerContainerOptions extends OutputOptions {
  readonly engine: Dockerode;
  readonly warnings: readonly string[];
  /** Whether it had ended before this process began to follow it. */
  readonly hasEnded: boolean;
  readonly withOutputs: WithOutputs;
  /** Called when the container is removed or could not be removed. */
  readonly onRemoved: () => void;
}

/** A started container of a Docker engine. */
export class DockerContainer implements RunningContainer {
  readonly lines: AsyncIterable<LogLine>;
  readonly exit: Promise<ContainerExit>;
  readonly warnings: readonly string[];
  private hasEnded = false;
  private ranAt = NO_TIMES;
  /** When the engine told the state last, by its clock, in milliseconds since 1970, of whole seconds. */
  private toldMs = Number.NaN;
  /** When the grace period ends, on the clock of `performance`; null: nothing has asked it to stop. */
  private killAtMs: number | null = null;
  private readonly output: ContainerOutput;
  private readonly events: EndEvents;
  readonly kept: KeptContainer;

  constructor(
    private readonly container: Dockerode.Container,
    private readonly options: DockerContainerOptions,
  ) {
    this.warnings = options.warnings;
    this.events = new EndEvents(options.engine, container.id, options.timing.callMs);
    const end = this.waitForEnd().finally(() => {
      this.hasEnded = true;
    });
    this.exit = end.then(({ exit }) => exit);
    this.exit.catch(() => undefined);
    this.output = new ContainerOutput(container, end, options);
    this.lines = this.output.lines();
    this.kept = { id: container.id, cursors: this.output.cursors };
  }

  times(): ContainerTimes {
    return this.ranAt;
  }

  async stop(graceSeconds: number): Promise<void> {
    if (this.hasEnded) return;
    const { retryMs, callMs, outageMs } = this.options.timing;
    // A later call may shorten the time, and goes on with that of the first otherwise.
    const killAtMs = Math.min(this.killAtMs ?? Infinity, performance.now() + graceSeconds * 1000);
    this.killAtMs = killAtMs;
    const stopped = await this.askToStop(killAtMs);
    // After a successful stop only the exit is awaited.
    let pauseMs = stopped ? retryMs * 16 : retryMs;
    while (!(await settlesWithin(this.exit, pauseMs))) {
      if (performance.now() > killAtMs + outageMs)
        throw new Error('the container could not be stopped: the engine does not end it');
      await this.request('kill', callMs, (abortSignal) => this.container.kill({ abortSignal }));
      pauseMs = Math.min(pauseMs * 2, retryMs * 16);
    }
  }

  /**
   * Reads again while the engine is unreachable, as long as for the exit. An engine that can read the container's root but not
   * the file does not fail: the program left something there that cannot be read, such as a link to itself.
   */
  async readOutputs(): Promise<Buffer | null> {
    const deadline = performance.now() + this.options.timing.outageMs;
    for (
      let pauseMs = this.options.timing.retryMs;
      ;
      pauseMs = Math.min(pauseMs * 2, this.options.timing.retryMs * 16)
    ) {
      try {
        return await this.inOutputs(readOutputFile);
      } catch (error) {
        if (error instanceof RunFault) throw error;
        const status = engineStatus(error);
        const message = 'The outputs of the container could not be read';
        if (status === 404) throw new Error(message, { cause: error });
        if (status !== null && (await this.isReadable())) throw refusedOutputs('it cannot be read');
        if (status !== null || performance.now() > deadline) throw new EngineFault(message, { cause: error });
        this.options.log.warn(
          { container: this.container.id, error: engineMessage(error) },
          'outputs of a container not readable, retrying',
        );
      }
      await sleep(pauseMs);
    }
  }

  /** Whether the engine can read the files of the container at all. */
  private async isReadable(): Promise<boolean> {
    try {
      await this.inOutputs((container, abortSignal) => container.infoArchive({ path: '/', abortSignal }));
      return true;
    } catch {
      return false;
    }
  }

  private inOutputs<T>(
    read: (container: Dockerode.Container, abortSignal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { timing, withOutputs } = this.options;
    return withOutputs((container) =>
      withLimit(timing.callMs, 'archive', (abortSignal) => read(container, abortSignal)),
    );
  }

  readFiles<T>(task: (files: EndedFiles) => Promise<T>): Promise<T> {
    const { timing, withOutputs } = this.options;
    return withOutputs((container) => task(endedFiles(container, timing.callMs)));
  }

  async remove(): Promise<void> {
    try {
      await removeContainer(this.container, this.options.timing);
    } finally {
      this.options.onRemoved();
      this.output.close();
    }
  }

  /**
   * Asks the engine to stop the container, again when the request does not reach it, until the time for SIGKILL.
   * @returns whether the engine has stopped it
   */
  private async askToStop(killAtMs: number): Promise<boolean> {
    const ended = new AbortController();
    const onEnd = (): void => ended.abort();
    this.exit.then(onEnd, onEnd);
    for (let againMs = this.options.timing.retryMs; ; againMs *= 2) {
      const askedMs = performance.now();
      const askedLeftMs = Math.max(0, killAtMs - askedMs);
      const stopped = await this.request('stop', askedLeftMs + STOP_MARGIN_MS, (limit) =>
        this.container.stop({
          t: Math.ceil(askedLeftMs / 1000),
          abortSignal: AbortSignal.any([limit, ended.signal]),
        }),
      );
      const leftMs = killAtMs - performance.now();
      if (stopped || leftMs <= 0) return stopped;
      // A request that the engine has held for a while has reached it: a second SIGTERM could cut short what the first began.
      const isHeld = performance.now() - askedMs > HELD_MS;
      if (await settlesWithin(this.exit, isHeld ? leftMs : Math.min(againMs, leftMs))) return true;
    }
  }

  /**
   * Logs a failure instead of throwing it.
   * @returns whether the engine did it, or had nothing to do
   */
  private async request(
    what: string,
    limitMs: number,
    call: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<boolean> {
    try {
      await withLimit(limitMs, what, call);
      return true;
    } catch (error) {
      const status = engineStatus(error);
      if (this.hasEnded || status === 304 || status === 404 || status === 409) return true;
      this.options.log.warn(
        { container: this.container.id, error: engineMessage(error) },
        `container engine failed to ${what}`,
      );
      return false;
    }
  }

  /**
   * Waits for the end. An answer to `wait` only triggers an inspection of the state, which survives lost answers and
   * restarts of the engine.
   */
  private async waitForEnd(): Promise<ContainerEnd & { readonly exit: ContainerExit }> {
    let awaySince: number | null = null;
    let pauseMs = this.options.timing.retryMs;
    let answered: number | null = null;
    for (;;) {
      const beganAt = performance.now();
      const code = await this.waitOnce();
      const waitedMs = performance.now() - beganAt;
      answered = code ?? answered;
      // The engine may have been away for so short a time that only its answer to `wait` is missing.
      const isTold = awaySince === null && code !== null && !this.options.hasEnded;
      const toldSince = isTold ? beganAt : Infinity;
      try {
        const exit = await this.inspectExit();
        if (exit !== null) {
          const { finishedAt } = this.ranAt;
          const { byEngine, isAfterRestart } = isTold
            ? TOLD
            : await this.events.readEnd(exit.exitCode, finishedAt, this.options.hasEnded);
          if (byEngine && this.killAtMs === null) throw new EngineStopped();
          const mayLackOutput = isTold && (await this.events.hasWaitedForReader(finishedAt, this.toldMs));
          return { exit, toldSince, isAfterRestart, mayLackOutput };
        }
        awaySince = null;
      } catch (error) {
        if (error instanceof EngineStopped) throw error;
        if (engineStatus(error) === 404) {
          if (answered !== null)
            return {
              exit: { exitCode: answered, outOfMemory: false },
              toldSince,
              isAfterRestart: false,
              mayLackOutput: false,
            };
          throw new Error('the container was removed externally while it was running', { cause: error });
        }
        awaySince ??= performance.now();
        if (performance.now() - awaySince > this.options.timing.outageMs) {
          throw new EngineFault(
            `the container engine cannot tell how the container ended: ${engineMessage(error)}`,
            {
              cause: error,
            },
          );
        }
      }
      pauseMs =
        code === null && awaySince !== null
          ? Math.min(pauseMs * 2, this.options.timing.retryMs * 16)
          : this.options.timing.retryMs;
      // Only one that was answered too early is not repeated at once.
      if (waitedMs < this.options.timing.waitMs) await sleep(pauseMs);
    }
  }

  /**
   * Waits for the end once, with `not-running`: `next-exit` could miss a short container.
   */
  private async waitOnce(): Promise<number | null> {
    try {
      const answer = await withLimit(this.options.timing.waitMs, 'wait', async (abortSignal) =>
        text(await requestOf(this.container, 'wait', abortSignal)),
      );
      const code: unknown = Reflect.get(Object(JSON.parse(answer)), 'StatusCode');
      return typeof code === 'number' ? code : null;
    } catch {
      return null;
    }
  }

  private async inspectExit(): Promise<ContainerExit | null> {
    const state = await this.inspectState();
    if (state.Running) return null;
    const suspicious = state.ExitCode === KILLED && !state.OOMKilled && this.killAtMs === null;
    if (suspicious) await sleep(this.options.timing.retryMs);
    // The engine receives the out-of-memory kill and the exit separately, in either order.
    const { ExitCode, OOMKilled, StartedAt, FinishedAt } = suspicious ? await this.inspectState() : state;
    this.ranAt = { startedAt: engineTime(StartedAt), finishedAt: engineTime(FinishedAt) };
    return { exitCode: ExitCode, outOfMemory: OOMKilled && ExitCode !== 0 };
  }

  private async inspectState(): Promise<Dockerode.ContainerInspectInfo['State']> {
    return withLimit(this.options.timing.callMs, 'inspect', async (abortSignal) => {
      const answer = await requestOf(this.container, 'json', abortSignal);
      const { State }: Dockerode.ContainerInspectInfo = JSON.parse(await text(answer));
      this.toldMs = Date.parse(answer.headers.date ?? '');
      return State;
    });
  }
}
