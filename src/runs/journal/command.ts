import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Caller } from '../../auth/access.js';
import type { KeyBinding } from '../../config/key-settings.js';
import type { RunView } from '../storage/run-views.js';
import type { Idempotency, IdempotencyKey } from '../idempotency/idempotency.repository.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun, Run } from '../machine/run.js';
import type { RunState } from '../machine/run-state.js';
import type { PagePlace } from '../storage/bulk-progress.js';
import type { ClaimingWorker } from '../scheduling-strategy.js';
import type { ClaimedFields } from '../storage/run.repository.js';

/** What a request says beside its command. */
export interface CommandOptions {
  /** The key of the request, which is carried out once however often it is sent. */
  readonly idempotency?: Idempotency | undefined;
  /** Who sends the command; undefined: the service itself. Callers are served in turn. */
  readonly caller?: Pick<Caller, 'id' | 'scopes'> | undefined;
}

/** How a command on a run is carried out and answered. */
export interface ChangeOptions extends CommandOptions {
  /** Whether the effect includes a view of the whole run, read in the same transaction if its bytes allow. */
  readonly wantsView?: boolean;
  /** Called when the command is decided: true when a command of the same request that must precede it has failed. */
  readonly hasPrecedingFailed?: (() => boolean) | undefined;
}

/**
 * The next runs of a bulk operation. They are changed in the commit that moves the operation on, or not at all: so each is changed
 * once, however often the page is begun.
 */
export interface Page extends PagePlace {
  readonly runIds: readonly string[];
  readonly command: RunCommand;
  /** Runs in another state are refused; undefined: none is. */
  readonly onlyIn: readonly RunState[] | undefined;
  /** Why all of them are refused, without the command. */
  readonly refusal?: string | undefined;
}

/** Whether this commit has moved the operation on: false when another one has, or the operation has ended. */
export interface PageOutcome {
  readonly kind: 'page';
  readonly isRecorded: boolean;
}

export type PendingCommand =
  | ({ readonly kind: 'create'; readonly fresh: NewRun } & CommandOptions)
  | ({ readonly kind: 'change'; readonly runId: string; readonly command: RunCommand } & ChangeOptions)
  | { readonly kind: 'page'; readonly page: Page; readonly caller: NonNullable<CommandOptions['caller']> }
  | { readonly kind: 'claim'; readonly claim: Claim };

/** What a command did: the run afterwards, or the id of the run of an earlier request with the same key. */
export type Effect = ({ readonly run: Run } | { readonly replayOf: string }) & {
  /** Undefined: not wanted, the run of an earlier request was removed, or the views of the group have too many bytes. */
  readonly view?: RunView | undefined;
};

export type Result = Effect | ClaimOutcome | PageOutcome;

/** The command's idempotency key, to be registered; none for a claim or a page. */
export function keyOf(pending: PendingCommand): IdempotencyKey[] {
  if (pending.kind === 'claim' || pending.kind === 'page' || !pending.idempotency) return [];
  return [{ ...pending.idempotency, runId: pending.kind === 'create' ? pending.fresh.id : pending.runId }];
}

/** The runs that a command names. */
export function runsOf(pending: PendingCommand): readonly string[] {
  if (pending.kind === 'page') return pending.page.runIds;
  return pending.kind === 'change' ? [pending.runId] : [];
}

/** What a run of a page counts: about as much as a command of its own. */
const BYTES_OF_A_RUN = 1024;

/** Size of a command's values of free size, as their texts' lengths. */
export function bytesOf(pending: PendingCommand): number {
  switch (pending.kind) {
    case 'create': {
      const { inputs, outputsTemplate, attributes, image, topic } = pending.fresh;
      return (
        lengthOf(inputs) + lengthOf(outputsTemplate) + lengthOf(attributes) + image.length + lengthOf(topic)
      );
    }
    case 'change': {
      const { command } = pending;
      if (command.type === 'event') return lengthOf(command.event.payload) + lengthOf(command.event.msg);
      return command.type === 'patch' ? lengthOf(command.outputs) : 0;
    }
    case 'page':
      return pending.page.runIds.length * BYTES_OF_A_RUN;
    case 'claim':
      return 0;
  }
}

function lengthOf(value: JsonObject | string | number | null | undefined): number {
  if (typeof value === 'string') return value.length;
  return typeof value === 'object' && value !== null ? jsonText(value).length : 0;
}

export interface Claim {
  readonly workerId: string;
  /** Maximum number of runs; undefined: the strategy decides. */
  readonly max?: number | undefined;
  readonly idempotency?: Idempotency | undefined;
  /** Its key must cover the worker as it is when runs are assigned; undefined: every worker may claim. */
  readonly caller?: (KeyBinding & Pick<Caller, 'id'>) | undefined;
  /** Aborts when the client is gone or the service stops: the claim gets no runs then. */
  readonly signal: AbortSignal;
}

/** A run that a claim assigned, with the other fields that its worker needs. */
export interface ClaimedRun extends ClaimedFields {
  readonly run: Run;
}

/**
 * Result of a claim. `replayed`: the runs of an earlier claim with the same key that the worker still holds.
 * `empty`: no run for this worker. `contended`: there may be one, but this commit could not have it; try again.
 * `refused`: the worker is unknown, inactive or draining, the caller's key does not cover it, or the client is gone.
 */
export interface ClaimOutcome {
  readonly kind: 'served' | 'replayed' | 'empty' | 'contended' | 'refused';
  readonly runs: readonly ClaimedRun[];
  /** True of a contended claim if an earlier one with its key has got runs, which an empty answer would deny. */
  readonly isReplay?: true;
  /** True of an empty claim if the queue had no run for any worker. */
  readonly isQueueEmpty?: true;
  /** The worker as it was when runs were assigned; absent: unknown, inactive or draining, or nobody looked. */
  readonly worker?: ClaimingWorker;
}

export const EMPTY: ClaimOutcome = { kind: 'empty', runs: [] };
export const QUEUE_EMPTY: ClaimOutcome = { ...EMPTY, isQueueEmpty: true };
export const CONTENDED: ClaimOutcome = { kind: 'contended', runs: [] };
export const CONTENDED_REPLAY: ClaimOutcome = { kind: 'contended', runs: [], isReplay: true };
export const REFUSED: ClaimOutcome = { kind: 'refused', runs: [] };
