import type { Logger } from 'pino';
import { Backoff } from '../backoff.js';
import type { Clock } from '../clock.js';
import { errorText } from './failure-message.js';
import type { RunningContainer } from '../runtime/runtime.js';

const TRIES = 8;
const RETRY = { firstMs: 500, maxMs: 30_000 };

/** Seconds between asking a container to end and forcing it. */
export const STOP_GRACE_SECONDS = 5;

/** What cleaning up works with. */
export interface CleanupContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/**
 * Stops and removes a container, trying for about two minutes when the engine does not do it. What is left behind after
 * that is removed at the worker's next start.
 */
export async function removeContainer(container: RunningContainer, context: CleanupContext): Promise<void> {
  await insist('stop the container', () => container.stop(STOP_GRACE_SECONDS), context);
  await insist('remove the container', () => container.remove(), context);
}

async function insist(
  what: string,
  step: () => Promise<void>,
  { clock, random, logger }: CleanupContext,
): Promise<void> {
  const backoff = new Backoff(RETRY, random);
  for (let tries = 1; ; tries++) {
    try {
      await step();
      return;
    } catch (error) {
      if (tries === TRIES) {
        logger.error({ error: errorText(error), tries }, `could not ${what}, giving up`);
        return;
      }
      logger.warn({ error: errorText(error), tries }, `could not ${what}, trying again`);
    }
    await clock.sleep(backoff.nextMs());
  }
}
