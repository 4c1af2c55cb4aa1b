import type Dockerode from 'dockerode';
import { engineMessage, engineStatus } from './docker-engine.js';
import { ACCESS_REFUSED, isDiskFull, pullReason } from './engine-reason.js';
import { localName, pullSelector, type ImageReference } from './image-reference.js';
import { splitLines } from '../log-lines.js';
import type { OutputChunk } from '../output-chunks.js';
import { EngineFault, RunFault, type RuntimeLog } from '../runtime.js';
import type { RegistryLogin } from '../../service-api/service-api.js';
import { engineLogin, maskOf } from './registry-login.js';
import { ImageWithheld, type ImageAccess } from './store/image-access.js';

/** Longest time without progress of a pull, in milliseconds. */
export const PULL_STALL_MS = 120_000;

/** A failed pull, with the words of the engine or the registry. */
class PullError extends Error {
  constructor(
    message: string,
    /** Fit for a run's error_message. */
    readonly reason: string,
    /** The registry reports that the image does not exist or is private. */
    readonly missing: boolean,
  ) {
    super(message);
  }
}

export interface PullOptions {
  /** Longest time without progress, in milliseconds. */
  readonly stallMs: number;
  readonly log: RuntimeLog;
  /** Null: without a login. */
  readonly login: RegistryLogin | null;
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
   * @returns the id of the image
   * @throws RunFault when the registry says that there is no such image, or refuses access to it, or the login is for another
   * @throws EngineFault when the engine does not answer or its disk is full
   * @throws Error fit for a run's error_message when it could not be pulled for another reason
   */
  async run(signal: AbortSignal): Promise<string> {
    const image = localName(this.reference);
    const { log, login, access } = this.options;
    const authconfig = login === null ? undefined : engineLogin(this.reference, login);
    try {
      await access.prepare();
      await this.pull(signal, authconfig);
      return await access.accept(() => this.pull(signal, authconfig));
    } catch (error) {
      await access.cancel();
      if (signal.aborted) throw new Error(`The pull of image '${image}' was given up`, { cause: error });
      if (error instanceof RunFault || error instanceof ImageWithheld) throw error;
      const here = login === null ? await access.free().catch(() => null) : null;
      const consequence = here !== null ? 'image not pulled, using the one that is here' : 'image not pulled';
      log.warn({ image, reason: engineMessage(error, maskOf(login)) }, consequence);
      if (here !== null) return here;
      const what = login === null ? ', and the worker has none of that name' : ' with its login';
      if (error instanceof PullError && error.missing)
        throw new RunFault(`Image '${image}' was not found${what}`, {
          cause: error,
          reported: 'image',
        });
      const why = error instanceof PullError ? error.reason : 'the container engine did not answer';
      const message = `Image '${image}' could not be pulled${what}: ${why}`;
      if (why === ACCESS_REFUSED) throw new RunFault(message, { cause: error, reported: 'image' });
      if (!(error instanceof PullError) || isDiskFull(error))
        throw new EngineFault(message, { cause: error });
      throw new Error(message, { cause: error });
    }
  }

  private async pull(signal: AbortSignal, authconfig: object | undefined): Promise<void> {
    const abort = new AbortController();
    const cancel = () => abort.abort();
    signal.addEventListener('abort', cancel, { once: true });
    let stalled = false;
    const watchdog = setTimeout(() => {
      stalled = true;
      cancel();
    }, this.options.stallMs);
    try {
      signal.throwIfAborted();
      const { repository: fromImage } = this.reference;
      const report = await this.engine.createImage({
        fromImage,
        tag: pullSelector(this.reference),
        ...(authconfig === undefined ? {} : { authconfig }),
        abortSignal: abort.signal,
      });
      for await (const line of splitLines(asChunks(report))) {
        watchdog.refresh();
        const problem = problemOf(line.text);
        if (problem !== null) throw new PullError(problem, pullReason(problem), isMissing(problem));
      }
    } catch (error) {
      if (stalled) {
        const reason = `no progress for ${this.options.stallMs / 1000} s`;
        throw new PullError(reason, reason, false);
      }
      const status = engineStatus(error);
      if (error instanceof PullError || status === null) throw error;
      const message = engineMessage(error, maskOf(this.options.login));
      throw new PullError(message, pullReason(message), status === 404 || isMissing(message));
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener('abort', cancel);
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

/** The error in a line of the report, or null. */
function problemOf(line: string): string | null {
  let report: unknown;
  try {
    report = JSON.parse(line);
  } catch {
    return null;
  }
  const error: unknown =
    typeof report === 'object' && report !== null ? Reflect.get(report, 'error') : undefined;
  return typeof error === 'string' ? error : null;
}

/** Newer engines report a missing image in the stream, after they have answered 200. */
function isMissing(message: string): boolean {
  return /not found|manifest unknown|does not exist|access denied/i.test(message);
}
