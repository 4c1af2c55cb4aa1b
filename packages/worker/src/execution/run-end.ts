import type { Logger } from 'pino';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Delivery, EventSender } from './event-sender.js';
import { clipMessage } from './failure-message.js';
import type { Refusal, RunEvent } from '../service-api/service-api.js';

/**
 * Where a failure lies: the container ran and failed, the run would fail on every worker, this machine could not do it,
 * or it had no time left.
 */
export type FailureCause = 'container' | 'run' | 'machine' | 'shutdown';

/** How the work on a run came out, before the service was told. */
export type Outcome =
  | { readonly kind: 'completed'; readonly outputs: JsonObject | undefined }
  | {
      readonly kind: 'failed';
      readonly cause: FailureCause;
      /** One line. */
      readonly summary: string;
      /** Fit for the run's error_message. */
      readonly message: string;
    }
  /** The run is no longer ours: nothing to report. */
  | { readonly kind: 'gone'; readonly why: string };

/**
 * How a run ended for this worker. `failed`: its container did, or had no time left; `faulty`: the run would fail on every
 * worker; `machine-failed`: something around the container failed; `gone`: the service took the run away, or had the end
 * decided otherwise; `unreported`: the service never answered to the last event.
 */
export type RunEnd = 'completed' | 'failed' | 'faulty' | 'machine-failed' | 'gone' | 'unreported';

const END_OF: Readonly<Record<FailureCause, RunEnd>> = {
  container: 'failed',
  run: 'faulty',
  machine: 'machine-failed',
  shutdown: 'failed',
};

/** Sends the event that ends the run, and repeats it until the service takes or refuses it. */
export async function reportEnd(outcome: Outcome, sender: EventSender, logger: Logger): Promise<RunEnd> {
  switch (outcome.kind) {
    case 'gone':
      return 'gone';
    case 'completed':
      return reportCompleted(outcome.outputs, sender, logger);
    case 'failed':
      return reportFailed(outcome, sender, logger);
  }
}

async function reportCompleted(
  outputs: JsonObject | undefined,
  sender: EventSender,
  logger: Logger,
): Promise<RunEnd> {
  const payload: JsonObject = outputs === undefined ? {} : { outputs };
  const delivery = await sender.deliver({
    type: 'COMPLETED',
    msg: 'The container ended with exit code 0',
    payload,
  });
  if (!isAboutTheEvent(delivery)) return endOf(delivery, 'completed', logger);
  const { status, detail } = delivery;
  const why = status === 413 ? 'they are larger than it takes' : `${status}: ${detail}`;
  const message = clipMessage(`The service refused the run's outputs: ${why}`);
  return reportFailed({ kind: 'failed', cause: 'run', summary: message, message }, sender, logger);
}

async function reportFailed(
  { summary, message, cause }: Extract<Outcome, { kind: 'failed' }>,
  sender: EventSender,
  logger: Logger,
): Promise<RunEnd> {
  logger.info({ summary }, 'the run has failed');
  const delivery = await sender.deliver(failed(summary, message));
  const end = END_OF[cause];
  if (!isAboutTheEvent(delivery)) return endOf(delivery, end, logger);
  // A run whose end cannot be told would hang for ever; this much the service takes.
  const plain = `The service refused the reason of the failure (${delivery.status})`;
  return endOf(await sender.deliver(failed(plain, plain)), end, logger);
}

function failed(msg: string, message: string): RunEvent {
  return { type: 'FAILED', msg, payload: { error_message: message } };
}

/** Whether the service objects to what the event says, not to who says it or about which run. */
function isAboutTheEvent(delivery: Delivery): delivery is Refusal {
  return delivery.kind === 'refused' && [400, 413, 415, 422].includes(delivery.status);
}

function endOf(delivery: Delivery, end: RunEnd, logger: Logger): RunEnd {
  switch (delivery.kind) {
    case 'delivered':
      logger.info({ end }, 'the end of the run is reported');
      return end;
    case 'refused':
      logger.warn(
        { status: delivery.status, detail: delivery.detail },
        'the service refused the end of the run',
      );
      return 'gone';
    case 'closed':
      return delivery.why === 'lost' ? 'gone' : 'unreported';
  }
}
