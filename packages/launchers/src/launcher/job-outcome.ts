import type { FailureCause } from '@longshore/client/constants';
import { clipMessage } from '@longshore/worker/execution/failure-message';
import type { Outcome } from '@longshore/worker/execution/outcome';
import type { LogLine } from '@longshore/worker/runtime/runtime';
import { MASK } from '@longshore/worker/secrets/masking';

/** Why nothing that a container says is reported. */
export const HELD_BACK =
  "Log, events and outputs are held back: the values of the run's secrets are no longer available for masking";

/** The outcome of a job that ended in another way than by the exit of its container. */
export function failedJob(cause: FailureCause, text: string): Outcome {
  const message = clipMessage(text);
  const [summary = message] = message.split('\n');
  return { kind: 'failed', origin: 'job', cause, summary, message };
}

/** The outcome without texts that may contain values of secrets. Outputs can neither be reported nor be left out. */
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
