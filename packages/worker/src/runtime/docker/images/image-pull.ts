import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage } from '../engine/docker-engine.js';
import { faultOf, NOT_FOUND, PullError, pullVerdict } from '../engine/engine-verdict.js';
import { localName, pullSelector, type ImageReference } from './image-reference.js';
import type { LoginFile } from './login-file.js';
import { PullWatch, type PullTiming } from './pull-watch.js';
import { splitLines } from '../../log-lines.js';
import type { OutputChunk } from '../../output-chunks.js';
import { RunFault, type RuntimeLog } from '../../runtime.js';
import type { RegistryLogin } from '../../../service-api/service-api.js';
import { engineLogin, maskOf } from './registry-login.js';
import { ImageWithheld, type ImageAccess } from './image-access.js';

export interface PullOptions {
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
        return await access.accept(() => this.pull(signal, authconfig));
      } catch (error) {
        await access.cancel();
        if (signal.aborted) throw new Error(`The pull of image '${image}' was given up`, { cause: error });
        if (error instanceof RunFault || error instanceof ImageWithheld) throw error;
        const verdict = pullVerdict(error);
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
