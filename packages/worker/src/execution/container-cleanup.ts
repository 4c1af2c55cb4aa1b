import type { Logger } from 'pino';
import { Backoff } from '../backoff.js';
import type { Clock } from '../clock.js';
import { errorText } from './failure-message.js';
import type { RunningContainer } from '../runtime/runtime.js';

const MAX_TRIES = 8;
const RETRY = { firstMs: 500, maxMs: 30_000 };

/** Seconds between the request to end and the kill. */
const STOP_GRACE_SECONDS = 5;

interface CleanupContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/**
 * Stops and removes a container, with retries for about two minutes. The next start of the worker removes one that
 * remains.
 */
export async function removeContainer(container: RunningContainer, context: CleanupContext): Promise<void> {
  await retry('stop the container', () => container.stop(STOP_GRACE_SECONDS), context);
  await retry('remove the container', () => container.remove(), context);
}

async function retry(
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
      if (tries === MAX_TRIES) {
        logger.error({ error: errorText(error), tries }, `could not ${what}, giving up`);
        return;
      }
      logger.warn({ error: errorText(error), tries }, `could not ${what}, retrying`);
    }
    await clock.sleep(backoff.nextMs());
  }
}
