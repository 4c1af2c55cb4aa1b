import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '../process/clock.js';
import { errorText } from '@longshore/common/errors';

const MAX_TRIES = 8;
const RETRY = { firstMs: 500, maxMs: 30_000 };

export interface CleanupContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/**
 * Repeats a step of a clean-up until it succeeds, for about two minutes. Never rejects.
 * @param what for the worker's log, after "could not"
 */
export async function retryCleanup(
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
