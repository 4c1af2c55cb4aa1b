import type { Logger } from 'pino';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Delivery, EventSender } from './event-sender.js';
import { clipMessage } from './failure-message.js';
import type { FailureOrigin, Outcome } from './outcome.js';
import type { Refusal, RunEvent } from '../service-api/service-api.js';

/**
 * How a run ended for this worker. `failed`: its container failed or was stopped by the shutdown; `faulty`: the run would
 * fail on every worker, or this one can never execute it; `machine-failed`: this machine could not execute it; `engine-failed`:
 * this machine cannot execute anything now; `lost`: the service took the run away or refused its end; `unreported`: the
 * service did not answer the final event.
 */
export type RunEnd =
  'completed' | 'failed' | 'faulty' | 'machine-failed' | 'engine-failed' | 'lost' | 'unreported';

const END_OF: Readonly<Record<FailureOrigin, RunEnd>> = {
  container: 'failed',
  run: 'faulty',
  machine: 'machine-failed',
  capacity: 'faulty',
  engine: 'engine-failed',
  shutdown: 'failed',
};

/** Sends the final event until the service accepts or refuses it. */
export async function reportEnd(outcome: Outcome, sender: EventSender, logger: Logger): Promise<RunEnd> {
  switch (outcome.kind) {
    case 'lost':
      return 'lost';
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
  if (!isContentRefused(delivery)) return endOf(delivery, 'completed', logger);
  const { status, detail } = delivery;
  const why = status === 413 ? 'they are larger than it takes' : `${status}: ${detail}`;
  const message = clipMessage(`The service refused the run's outputs: ${why}`);
  const outcome = { kind: 'failed', origin: 'run', cause: 'error', summary: message, message } as const;
  return reportFailed(outcome, sender, logger);
}

async function reportFailed(
  { summary, message, origin, cause, exitCode }: Extract<Outcome, { kind: 'failed' }>,
  sender: EventSender,
  logger: Logger,
): Promise<RunEnd> {
  logger.info({ summary, cause }, 'the run has failed');
  const why: JsonObject = { cause, ...(exitCode === undefined ? {} : { exit_code: exitCode }) };
  const delivery = await sender.deliver(failed(summary, message, why));
  const end = END_OF[origin];
  if (!isContentRefused(delivery)) return endOf(delivery, end, logger);
  // Without a final event the run would never end; the service accepts this short one.
  const plain = `The service refused the reason of the failure (${delivery.status})`;
  return endOf(await sender.deliver(failed(plain, plain, why)), end, logger);
}

function failed(msg: string, message: string, why: JsonObject): RunEvent {
  return { type: 'FAILED', msg, payload: { error_message: message, ...why } };
}

/** Whether the service refuses the content of the event. */
function isContentRefused(delivery: Delivery): delivery is Refusal {
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
      return 'lost';
    case 'closed':
      return delivery.why === 'lost' ? 'lost' : 'unreported';
  }
}
