import type { FailureCause } from '@longshore/client/constants';
import type { JsonObject } from '@longshore/common/json/json-value';
import { errorText } from '@longshore/common/errors';
import { clipMessage } from './failure-message.js';
import { EngineFault, MachineUnable, RunFault } from '../runtime/runtime.js';
import type { StoredArtifact } from '../service-api/run-artifacts.js';
import type { Unable } from '../service-api/service-api.js';
import type { SecretMask } from '../secrets/secret-mask.js';

/**
 * What failed. `container`; `job`: the engine's job, other than by the exit of its container, or what an earlier process began and is gone; `run`: it would fail on every
 * worker; `machine`: this machine could not execute it; `capacity`: this worker can never execute it; `engine`: this machine
 * cannot execute anything now.
 */
export type FailureOrigin = 'container' | 'job' | 'run' | 'machine' | 'capacity' | 'engine' | 'shutdown';

/** The container ended with exit code 0. */
export interface CompletedOutcome {
  readonly kind: 'completed';
  readonly outputs: JsonObject | undefined;
  /** What of the outputs was changed; null: nothing. */
  readonly change: OutputChange | null;
  /** What was stored of its files; absent: nothing. */
  readonly artifacts?: readonly StoredArtifact[];
}

/** What the worker changed in the outputs of a run, as COMPLETED tells it. */
export interface OutputChange {
  /** One sentence without its full stop. */
  readonly text: string;
  /** `outputs_changed` of the payload. */
  readonly details: JsonObject;
}

/** The result of an execution, not reported yet. */
export type Outcome =
  | CompletedOutcome
  | {
      readonly kind: 'failed';
      readonly origin: FailureOrigin;
      /** After `infrastructure`, the service queues the run again without a failed attempt of the user. */
      readonly cause: FailureCause;
      /** Of a container that ended. */
      readonly exitCode?: number;
      /** What the machine is unable to do: the failure does not count as a loss of the run. */
      readonly unable?: Unable['ability'];
      /** What was stored of its files; absent: nothing. */
      readonly artifacts?: readonly StoredArtifact[];
      readonly summary: string;
      /** Fit for the run's error_message. */
      readonly message: string;
    }
  /** Nothing to report. */
  | { readonly kind: 'lost'; readonly why: string }
  /** The job goes on; the next process of this worker follows it. */
  | { readonly kind: 'left' };

/** The outcome of an attempt that ended in another way than by the exit of its container or by an error of the worker. */
export function failedJob(cause: FailureCause, text: string): Outcome {
  const message = clipMessage(text);
  const [summary = message] = message.split('\n');
  return { kind: 'failed', origin: 'job', cause, summary, message };
}

/** Why an attempt of an earlier process starts again: it has no container on the machine. */
export function goneAttempt(isStarted: boolean): Outcome {
  const gone = 'The worker was restarted, and the container of the attempt is not on its machine any more';
  const notStarted = 'The worker was restarted before the container was started';
  return failedJob('infrastructure', isStarted ? gone : notStarted);
}

/** The outcome of an execution that failed with the error. */
export function outcomeOfError(error: unknown): Outcome {
  const message = clipMessage(errorText(error));
  const [summary = message] = message.split('\n');
  return { kind: 'failed', ...blame(error), summary, message };
}

function blame(error: unknown): Pick<Extract<Outcome, { kind: 'failed' }>, 'origin' | 'cause' | 'unable'> {
  if (error instanceof RunFault) return { origin: 'run', cause: error.reported };
  if (error instanceof Refused) return { origin: 'machine', cause: 'error' };
  const unable = error instanceof Unsuitable || error instanceof MachineUnable ? error.ability : null;
  const told = unable === null ? {} : { unable };
  if (error instanceof Unsuitable) return { origin: 'capacity', cause: 'infrastructure', ...told };
  if (error instanceof MachineUnable) return { origin: 'machine', cause: 'infrastructure', ...told };
  return { origin: error instanceof EngineFault ? 'engine' : 'machine', cause: 'infrastructure' };
}

/** The run requires more than this worker offers: another one could execute it. */
export class Unsuitable extends Error {
  /** @param ability what the machine offers at other times; null: nothing of the kind */
  constructor(
    message: string,
    readonly ability: Unable['ability'] | null = null,
  ) {
    super(message);
  }
}

/** The service refuses a request about the run. */
export class Refused extends Error {}

/** The outcome without values of secrets; its outputs have none already. */
export function maskedOutcome(outcome: Outcome, mask: SecretMask): Outcome {
  switch (outcome.kind) {
    case 'failed':
      return { ...outcome, summary: mask.text(outcome.summary), message: mask.text(outcome.message) };
    case 'completed':
    case 'lost':
    case 'left':
      return outcome;
  }
}

/** The line that the worker adds to the log of a run whose end did not come from its container. */
export function logNoteOf(outcome: Outcome): string | null {
  switch (outcome.kind) {
    case 'completed':
    case 'left':
      return null;
    case 'failed':
      return outcome.origin === 'container' ? null : outcome.message;
    case 'lost':
      return `stopped: ${outcome.why}`;
  }
}
