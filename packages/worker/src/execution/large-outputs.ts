import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { storeFile, type CollectParts } from '../artifacts/collect.js';
import { Refused } from './outcome.js';
import { LARGE_OUTPUTS, type LargeOutputs } from './run-outputs.js';

/** Asks the service for a place for outputs that are too large for an event. */
export async function keepOutputs(
  storing: CollectParts,
  logger: Logger,
  signal: AbortSignal,
): ReturnType<LargeOutputs['keep']> {
  try {
    const { [LARGE_OUTPUTS]: first } = await storing.getUploads({ names: [LARGE_OUTPUTS] });
    return async (text) => {
      const open = async () => ({ bytes: text.length, content: Readable.from([text]) });
      const file = { name: LARGE_OUTPUTS, path: 'output.json', bytes: text.length, open };
      storing.log.note(
        `the outputs are larger than the service takes: they are kept as the artifact ${LARGE_OUTPUTS}`,
      );
      return storeFile(file, first, storing, signal);
    };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    logger.info({ reason: error.message }, 'outputs that are too large cannot be kept as an artifact');
    return null;
  }
}
