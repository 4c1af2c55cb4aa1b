import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage, engineStatus, withLimit } from './docker-engine.js';
import { faultOf, NOT_FOUND, PullError, pullVerdict } from './engine-verdict.js';
import { localName, pullSelector, type ImageReference } from './image-reference.js';
import { PullWatch, type PullTiming } from './pull-watch.js';
import { splitLines } from '../log-lines.js';
import type { OutputChunk } from '../output-chunks.js';
import type { RuntimeLog } from '../runtime.js';
import type { RegistryLogin } from '../../service-api/service-api.js';
import { engineLogin, isPrivate, maskOf, privateMark, privateRepositoryMark } from './registry-login.js';

const LOOKUP_MS = 30_000;

export interface PullOptions {
  readonly timing: PullTiming;
  readonly log: RuntimeLog;
  /** Null: without a login. */
  readonly login: RegistryLogin | null;
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
   * @throws RunFault when the registry says that there is no such image, or refuses access to it, or the login is for another
   * @throws EngineFault when the engine does not answer or its disk is full
   * @throws Error fit for a run's error_message when it could not be pulled for another reason
   */
  async run(signal: AbortSignal): Promise<void> {
    const image = localName(this.reference);
    const { log, login } = this.options;
    const authconfig = login === null ? undefined : engineLogin(this.reference, login);
    const pauses = [...this.options.timing.retryMs];
    for (;;) {
      try {
        await this.pull(signal, authconfig);
        if (login !== null) await this.markPrivate(image);
        return;
      } catch (error) {
        if (signal.aborted) throw new Error(`The pull of image '${image}' was given up`, { cause: error });
        const verdict = pullVerdict(error);
        const isHere = login === null && (await this.isFree(image));
        const pauseMs = isHere || verdict.blame !== 'image' ? undefined : pauses.shift();
        const consequence = isHere
          ? 'image not pulled, using the one that is here'
          : `image not pulled${pauseMs === undefined ? '' : ', asking again'}`;
        log.warn({ image, reason: engineMessage(error, maskOf(login)) }, consequence);
        if (isHere) return;
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

  private async markPrivate(image: string): Promise<void> {
    for (const mark of [privateRepositoryMark(this.reference), privateMark(this.reference)]) {
      await withLimit(LOOKUP_MS, 'image tag', (abortSignal) =>
        this.engine.getImage(image).tag({ ...mark, abortSignal }),
      );
    }
  }

  /** Whether the engine has the image, and got neither it nor another one of its repository with a login. */
  private async isFree(image: string): Promise<boolean> {
    const { repo, tag } = privateRepositoryMark(this.reference);
    try {
      const found = await this.inspect(image);
      return found !== null && !isPrivate(found.RepoTags) && (await this.inspect(`${repo}:${tag}`)) === null;
    } catch {
      return false;
    }
  }

  /** Null: there is no image of that name. */
  private async inspect(image: string): Promise<Dockerode.ImageInspectInfo | null> {
    try {
      return await withLimit(LOOKUP_MS, 'image inspect', () => this.engine.getImage(image).inspect());
    } catch (error) {
      if (engineStatus(error) === 404) return null;
      throw error;
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
