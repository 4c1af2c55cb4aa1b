import type { Logger } from 'pino';
import type { JsonObject } from '@longshore/common/json/json-value';
import { timesPayload, type ContainerTimes } from '../runtime/runtime.js';
import type { Delivery, EventSender } from './event-sender.js';
import { clipMessage } from './failure-message.js';
import type { CompletedOutcome, FailureOrigin, Outcome, OutputChange } from './outcome.js';
import { completedEvent } from './run-outputs.js';
import { isContentRefused } from '../service-api/service-answer.js';
import { artifactsPayload, type StoredArtifact } from '../service-api/run-artifacts.js';
import type { RunEvent } from '../service-api/service-api.js';

/**
 * How a run ended for this worker. `failed`: its container or job failed or was stopped by the shutdown; `faulty`: the run would
 * fail on every worker, or this one can never execute it; `machine-failed`: this machine could not execute it; `engine-failed`:
 * this machine cannot execute anything now; `lost`: the service took the run away or refused its end; `unreported`: the
 * service did not answer the final event; `left`: its job goes on without this process.
 */
export type RunEnd =
  | 'completed'
  | 'failed'
  | 'faulty'
  | 'machine-failed'
  | 'engine-failed'
  | 'lost'
  | 'unreported'
  | 'left';

const END_OF: Readonly<Record<FailureOrigin, RunEnd>> = {
  container: 'failed',
  job: 'failed',
  run: 'faulty',
  machine: 'machine-failed',
  capacity: 'faulty',
  engine: 'engine-failed',
  shutdown: 'failed',
};

interface EndOptions {
  readonly logger: Logger;
  /** Idempotency key of the first final event, and the beginning of those that follow a refused one; null: keys of the sender. */
  readonly key: string | null;
  /** Of the container. */
  readonly times: ContainerTimes;
}

/** Sends a final event and resolves with the result. */
type Send = (event: RunEvent) => Promise<Delivery>;

/** Sends the final event until the service accepts or refuses it. */
export async function reportEnd(
  outcome: Outcome,
  sender: EventSender,
  { logger, key, times }: EndOptions,
): Promise<RunEnd> {
  let count = 0;
  const send: Send = (event) => {
    count += 1;
    const timed = { ...event, payload: { ...event.payload, ...timesPayload(times) } };
    return sender.deliver(timed, key === null || count === 1 ? key : `${key}:${count}`);
  };
  switch (outcome.kind) {
    case 'lost':
    case 'left':
      return outcome.kind;
    case 'completed':
      return reportCompleted(outcome, send, logger);
    case 'failed':
      return reportFailed(outcome, send, logger);
  }
}

/** What is told of a change when all of it would make the event larger than the service takes. */
const BRIEFLY: OutputChange = { text: 'The outputs were changed', details: {} };

async function reportCompleted(
  { outputs, change, artifacts = [] }: CompletedOutcome,
  send: Send,
  logger: Logger,
): Promise<RunEnd> {
  const event = (told: OutputChange | null): RunEvent =>
    withArtifacts(completedEvent(outputs, told), artifacts);
  let delivery = await send(event(change));
  if (change !== null && delivery.kind === 'refused' && delivery.status === 413)
    delivery = await send(event(BRIEFLY));
  if (delivery.kind !== 'refused' || !isContentRefused(delivery))
    return logEnd(delivery, 'completed', logger);
  const { status, detail, isByProxy } = delivery;
  const why = status === 413 ? 'they are larger than it takes' : `${status}: ${detail}`;
  const message = clipMessage(
    isByProxy === true
      ? `The outputs of the run do not reach the service: ${detail}`
      : `The service refused the run's outputs: ${why}`,
  );
  const outcome = { kind: 'failed', origin: 'run', cause: 'error', summary: message, message } as const;
  return reportFailed({ ...outcome, artifacts }, send, logger);
}

async function reportFailed(
  { summary, message, origin, cause, exitCode, unable, artifacts = [] }: Extract<Outcome, { kind: 'failed' }>,
  send: Send,
  logger: Logger,
): Promise<RunEnd> {
  logger.info({ summary, cause }, 'the run has failed');
  const why: JsonObject = {
    cause,
    ...(exitCode === undefined ? {} : { exit_code: exitCode }),
    ...(unable === undefined ? {} : { unable }),
  };
  const delivery = await send(withArtifacts(failed(summary, message, why), artifacts));
  const end = END_OF[origin];
  if (delivery.kind !== 'refused' || !isContentRefused(delivery)) return logEnd(delivery, end, logger);
  // Without a final event the run would never end; the service accepts this short one.
  const by = delivery.isByProxy === true ? 'A proxy in front of the service' : 'The service';
  const plain = `${by} refused the reason of the failure (${delivery.status})`;
  for (;;) {
    const last = await send(failed(plain, plain, why));
    // A proxy that refuses this, too, refuses every report: its content is not the reason.
    if (last.kind !== 'refused' || last.isByProxy !== true) return logEnd(last, end, logger);
  }
}

function failed(msg: string, message: string, why: JsonObject): RunEvent {
  return { type: 'FAILED', msg, payload: { error_message: message, ...why } };
}

function withArtifacts(event: RunEvent, artifacts: readonly StoredArtifact[]): RunEvent {
  if (artifacts.length === 0) return event;
  return { ...event, payload: { ...event.payload, ...artifactsPayload(artifacts) } };
}

function logEnd(delivery: Delivery, end: RunEnd, logger: Logger): RunEnd {
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
      return delivery.why === 'given-up' ? 'unreported' : delivery.why;
  }
}
