import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage, readFeatures, withLimit } from '../engine/docker-engine.js';
import { faultOf, NOT_FOUND, PullError, pullVerdict } from '../engine/engine-verdict.js';
import { CALL_MS } from './image-marks.js';
import { localName, pullSelector, type ImageReference } from './image-reference.js';
import { type LoginFile, engineLogin, maskOf } from './registry-login.js';
import { splitLines, type OutputChunk } from '../../log-lines.js';
import { RunFault, type RuntimeLog } from '../../runtime.js';
import type { RegistryLogin } from '../../../service-api/service-api.js';
import { ImageWithheld, type ImageAccess } from './image-access.js';

interface PullOptions {
  readonly timing: PullTiming;
  readonly log: RuntimeLog;
  /** Of the run; null: without one. */
  readonly login: RegistryLogin | null;
  /** Logins of the worker, for a run without one; null: none. */
  readonly logins: LoginFile | null;
  /** Of the same image and login. */
  readonly access: ImageAccess;
}

/**
 * Pulls the newest image, else falls back to the local one. An image that was pulled with a login is never used without asking
 * its registry: only who has the login may execute it.
 */
export class ImagePull {
  constructor(
    private readonly engine: Dockerode,
    private readonly reference: ImageReference,
    private readonly options: PullOptions,
  ) {}

  /**
   * Asks again after an answer of the registry that would be the image's fault: it may pass.
   * @returns the id of the image
   * @throws RunFault when the registry says that there is no such image, or refuses access to it, or the login is for another
   * @throws EngineFault when the engine does not answer or its disk is full
   * @throws Error fit for a run's error_message when it could not be pulled for another reason
   */
  async run(signal: AbortSignal): Promise<string> {
    const image = localName(this.reference);
    const { log, login, logins, access } = this.options;
    const pauses = [...this.options.timing.retryMs];
    for (;;) {
      let sent = login;
      try {
        sent ??= (await logins?.find(this.reference)) ?? null;
        const authconfig = sent === null ? undefined : engineLogin(this.reference, sent);
        await access.prepare();
        await this.pull(signal, authconfig);
        return await access.accept({
          pullAgain: () => this.pull(signal, authconfig),
          ask: () => this.ask(authconfig),
        });
      } catch (error) {
        await access.cancel();
        if (signal.aborted) throw new Error(`The pull of image '${image}' was given up`, { cause: error });
        if (error instanceof RunFault || error instanceof ImageWithheld) throw error;
        const verdict = pullVerdict(error, image);
        const here = login === null ? await access.free().catch(() => null) : null;
        const pauseMs = here !== null || verdict.blame !== 'image' ? undefined : pauses.shift();
        const consequence =
          here !== null
            ? 'image not pulled, using the one that is here'
            : `image not pulled${pauseMs === undefined ? '' : ', asking again'}`;
        log.warn({ image, reason: engineMessage(error, maskOf(sent)) }, consequence);
        if (here !== null) return here;
        if (pauseMs === undefined) {
          const what = login === null ? ', and the worker has none of that name' : ' with its login';
          const message =
            verdict.reason === NOT_FOUND
              ? `Image '${image}' was not found${what}`
              : `Image '${image}' could not be pulled${what}: ${verdict.reason}`;
          throw faultOf(verdict.blame, message, error);
        }
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /**
   * Asks the registry whether it gives the image to this login. By a digest whose image is here, Docker pulls without asking; Podman
   * always asks.
   * @throws Error of the engine when the registry does not give it
   */
  private async ask(authconfig: object | undefined): Promise<void> {
    if (this.reference.digest === null || (await readFeatures(this.engine, CALL_MS, null)).isPodman) return;
    const image = this.engine.getImage(localName(this.reference));
    await withLimit(CALL_MS, 'distribution', () => image.distribution({ authconfig }));
  }

  private async pull(signal: AbortSignal, authconfig: object | undefined): Promise<void> {
    const { log, timing } = this.options;
    const { repository: fromImage } = this.reference;
    const watch = new PullWatch(this.engine, { image: localName(this.reference), timing, log });
    try {
      signal.throwIfAborted();
      const report = await this.engine.createImage({
        fromImage,
        tag: pullSelector(this.reference),
        ...(authconfig === undefined ? {} : { authconfig }),
        abortSignal: AbortSignal.any([signal, watch.signal]),
      });
      for await (const line of splitLines(asChunks(report))) {
        const problem = watch.read(line.text);
        if (problem !== null) throw new PullError(problem);
      }
    } catch (error) {
      throw watch.signal.aborted ? watch.signal.reason : error;
    } finally {
      watch.end();
    }
  }
}

async function* asChunks(
  report: AsyncIterable<unknown>,
): AsyncGenerator<OutputChunk<'stdout'>, void, undefined> {
  for await (const bytes of report) {
    if (Buffer.isBuffer(bytes)) yield { stream: 'stdout', bytes };
  }
}

const PING_MS = 10_000;

/** When a pull is repeated and when it is given up, in milliseconds. */
export interface PullTiming {
  /** Pauses before an answer that would be the image's fault is asked for again. */
  readonly retryMs: readonly number[];
  /** Interval of lines about the progress in the worker's log. A pull without a report since is a silent one. */
  readonly intervalMs: number;
  /** How long a silent pull may last while the engine does not answer. */
  readonly awayMs: number;
  /** How long a pull may be silent while the engine answers; 0: for ever. */
  readonly silentMs: number;
}

export const PULL_TIMING: PullTiming = {
  retryMs: [1_000, 4_000],
  intervalMs: 30_000,
  awayMs: 120_000,
  silentMs: 0,
};

interface Watched {
  readonly image: string;
  readonly timing: PullTiming;
  readonly log: RuntimeLog;
}

/**
 * Follows the report of a pull. Silence alone does not end it: an engine extracts large layers and waits for free downloads
 * without a word. Asks a silent engine whether it is alive.
 */
class PullWatch {
  private readonly ended = new AbortController();
  private readonly givenUp = new AbortController();
  private readonly layers = new Map<string, string>();
  private readonly startedAt = performance.now();
  private heardAt = this.startedAt;
  /** The engine's last sign of life. */
  private aliveAt = this.startedAt;

  constructor(
    private readonly engine: Dockerode,
    private readonly watched: Watched,
  ) {
    void this.watch();
  }

  /** Aborted, with the error to throw, when the pull is given up. */
  get signal(): AbortSignal {
    return this.givenUp.signal;
  }

  /** Reads a line of the report. @returns the error in it, or null */
  read(line: string): string | null {
    this.heardAt = this.aliveAt = performance.now();
    const { id, status, error } = parsed(line);
    if (typeof id === 'string' && typeof status === 'string') this.layers.set(id, status);
    return typeof error === 'string' ? error : null;
  }

  end(): void {
    this.ended.abort();
  }

  private async watch(): Promise<void> {
    const { intervalMs, awayMs, silentMs } = this.watched.timing;
    const { signal } = this.ended;
    for (;;) {
      await sleep(intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      if (performance.now() - this.heardAt >= intervalMs) await this.ping();
      if (signal.aborted) return;
      this.report();
      const now = performance.now();
      if (now - this.aliveAt >= awayMs) this.giveUp(new Error(`no answer for ${awayMs / 1000} s`));
      else if (silentMs > 0 && now - this.heardAt >= silentMs)
        this.giveUp(new PullError(`no progress for ${silentMs / 1000} s`));
    }
  }

  private async ping(): Promise<void> {
    try {
      await withLimit(PING_MS, 'ping', () => this.engine.ping());
      this.aliveAt = performance.now();
    } catch (error) {
      const { log, image } = this.watched;
      log.warn({ image, error: engineMessage(error) }, 'the container engine does not answer during a pull');
    }
  }

  private report(): void {
    const { log, image } = this.watched;
    const states: Record<string, number> = {};
    for (const status of this.layers.values()) states[status] = (states[status] ?? 0) + 1;
    const seconds = Math.round((performance.now() - this.startedAt) / 1000);
    const silentSeconds = Math.round((performance.now() - this.heardAt) / 1000);
    log.info({ image, seconds, silentSeconds, layers: states }, 'pulling the image');
  }

  private giveUp(why: Error): void {
    this.ended.abort();
    this.givenUp.abort(why);
  }
}

function parsed(line: string): {
  readonly id?: unknown;
  readonly status?: unknown;
  readonly error?: unknown;
} {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}
