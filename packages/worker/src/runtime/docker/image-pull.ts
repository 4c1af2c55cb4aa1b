import type Dockerode from 'dockerode';
import { engineMessage, engineStatus, withLimit } from './docker-engine.js';
import { ACCESS_REFUSED, isDiskFull, pullReason } from './engine-reason.js';
import { localName, pullSelector, type ImageReference } from './image-reference.js';
import { splitLines } from '../log-lines.js';
import type { OutputChunk } from '../output-chunks.js';
import { EngineFault, RunFault, type RuntimeLog } from '../runtime.js';

/** Longest time without progress of a pull, in milliseconds. */
export const PULL_STALL_MS = 120_000;

const LOOKUP_MS = 30_000;

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

/** Pulls the newest image, else falls back to the local one. */
export class ImagePull {
  constructor(
    private readonly engine: Dockerode,
    private readonly reference: ImageReference,
    private readonly options: { readonly stallMs: number; readonly log: RuntimeLog },
  ) {}

  /**
   * @throws RunFault when the registry says that there is no such image, or refuses access to it
   * @throws EngineFault when the engine does not answer or its disk is full
   * @throws Error fit for a run's error_message when it could not be pulled for another reason
   */
  async run(signal: AbortSignal): Promise<void> {
    const image = localName(this.reference);
    try {
      await this.pull(signal);
    } catch (error) {
      if (signal.aborted) throw new Error(`The pull of image '${image}' was given up`, { cause: error });
      const isHere = await this.isLocal(image);
      const what = isHere ? 'image not pulled, using the one that is here' : 'image not pulled';
      this.options.log.warn({ image, reason: engineMessage(error) }, what);
      if (isHere) return;
      if (error instanceof PullError && error.missing)
        throw new RunFault(`Image '${image}' was not found, and the worker has none of that name`, {
          cause: error,
          reported: 'image',
        });
      const why = error instanceof PullError ? error.reason : 'the container engine did not answer';
      const message = `Image '${image}' could not be pulled, and the worker has none of that name: ${why}`;
      if (why === ACCESS_REFUSED) throw new RunFault(message, { cause: error, reported: 'image' });
      if (!(error instanceof PullError) || isDiskFull(error))
        throw new EngineFault(message, { cause: error });
      throw new Error(message, { cause: error });
    }
  }

  private async pull(signal: AbortSignal): Promise<void> {
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
      const message = engineMessage(error);
      throw new PullError(message, pullReason(message), status === 404 || isMissing(message));
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener('abort', cancel);
    }
  }

  private async isLocal(image: string): Promise<boolean> {
    try {
      await withLimit(LOOKUP_MS, 'image inspect', () => this.engine.getImage(image).inspect());
      return true;
    } catch {
      return false;
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
