import type { LogLine } from '../runtime/runtime.js';
import { MASK } from '../secrets/masking.js';
import { failedJob, type Outcome } from './outcome.js';

/** Why nothing that a container says is reported. */
export const HELD_BACK =
  'Log, events and outputs are held back: the secrets or signed URLs of the run are no longer available for masking';

/** The outcome without texts that may contain what must be masked. Outputs can neither be reported nor be left out. */
export function withoutTexts(outcome: Outcome): Outcome {
  switch (outcome.kind) {
    case 'completed': {
      const hasOutputs = Object.keys(outcome.outputs ?? {}).length > 0;
      return hasOutputs ? failedJob('infrastructure', HELD_BACK) : { ...outcome, outputs: undefined };
    }
    case 'failed': {
      const isExit = outcome.origin === 'container';
      const message = isExit ? `${outcome.summary}. ${HELD_BACK}` : HELD_BACK;
      return { ...outcome, summary: isExit ? outcome.summary : HELD_BACK, message };
    }
    case 'lost':
    case 'left':
      return outcome;
  }
}

/** As many lines without their texts, and a last one that says so. */
export async function* heldBackLines(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine> {
  for await (const line of lines) yield { ...line, text: MASK };
  yield { stream: 'stderr', text: `[worker] ${HELD_BACK}` };
}
