import { Backoff } from '@longshore/common/backoff';
import type { Runtime } from '../runtime/runtime.js';
import type { WorkerContext } from '../worker-context.js';
import { repeat } from '../process/clock.js';
import { errorText } from '@longshore/common/errors';
import { lossReason } from '../execution/run-requests.js';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Interval between searches for containers that another process started, in milliseconds. */
const ABANDONED_MS = 5_000;

/** Interval between searches for containers of ended attempts, in milliseconds. */
const OWN_MS = 60_000;

/** Interval between searches for images that are beyond their budget, in milliseconds; a pull searches as well. */
const IMAGES_MS = 600_000;

/** Removes containers that belong to no attempt of this worker, and images that are not used any more. */
export class LeftoverCleanup {
  constructor(
    private readonly context: WorkerContext,
    private readonly runtime: Runtime,
  ) {}

  /** Removes containers of previous processes that had the lock of the id. Call it before the first claim. */
  async removeOwn(signal: AbortSignal): Promise<void> {
    const { runtime } = this;
    const { clock, logger, random, obstacles } = this.context;
    const backoff = new Backoff(RETRY, random);
    while (!signal.aborted) {
      try {
        const containers = await runtime.removeLeftovers();
        if (containers > 0) logger.info({ containers }, 'removed containers of a previous process');
        return;
      } catch (error) {
        const fields = { runtime: runtime.name, error: errorText(error) };
        logger.warn(fields, 'could not remove containers of a previous process, retrying');
        obstacles.set('recovering', 'could not remove containers of a previous process');
      }
      await clock.sleep(backoff.nextMs(), signal);
    }
  }

  /** Searches until the signal is aborted. */
  async sweep(signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    await Promise.all([
      this.removeAbandoned(signal),
      repeat(clock, OWN_MS, signal, () => this.removeEnded()),
      this.removeUnusedImages().then(() => repeat(clock, IMAGES_MS, signal, () => this.removeUnusedImages())),
    ]);
  }

  /** An engine may create a container after the worker gave up waiting for it, or fail to remove one. */
  private async removeEnded(): Promise<void> {
    const { logger } = this.context;
    try {
      const containers = await this.runtime.removeLeftovers();
      if (containers > 0) logger.warn({ containers }, 'removed containers of ended attempts');
    } catch (error) {
      logger.debug({ error: errorText(error) }, 'could not look for containers of ended attempts');
    }
  }

  /**
   * Removes containers that were started under another lock, as on a host that was replaced, once the service has given
   * their attempts away: until then their worker may still run. Ends when there are none.
   */
  private async removeAbandoned(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.context;
    let known = 0;
    while (!signal.aborted) {
      try {
        const containers = await this.runtime.removeAbandoned((runId, attempt) =>
          this.isLost(runId, attempt),
        );
        if (containers === 0) return;
        if (containers !== known)
          logger.warn({ containers }, 'another process runs containers under this id');
        known = containers;
      } catch (error) {
        logger.debug({ error: errorText(error) }, 'could not look for containers of another process');
      }
      await clock.sleep(ABANDONED_MS, signal);
    }
  }

  private async removeUnusedImages(): Promise<void> {
    try {
      await this.runtime.removeUnusedImages();
    } catch (error) {
      this.context.logger.warn(
        { error: errorText(error) },
        'could not look for images that are not used any more',
      );
    }
  }

  private async isLost(runId: string, attempt: number): Promise<boolean> {
    const { api, workerId } = this.context;
    const answer = await api.getRun(runId);
    return answer.kind === 'ok' && lossReason(answer.value, workerId, attempt) !== null;
  }
}
