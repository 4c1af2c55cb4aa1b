import type { EntityManager } from 'typeorm';
import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Caller } from '../../auth/access.js';
import type { KeyBinding } from '../../config/key-settings.js';
import type { RunView } from '../storage/run-views.js';
import type { Idempotency, IdempotencyKey } from '../idempotency/idempotency.repository.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun, Run } from '../machine/run.js';
import type { RunState } from '../machine/run-state.js';
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
 * Creations and changes of runs that go with a record of another table: they are carried out in the commit that moves the record on,
 * or not at all. So each is carried out once, however often and by however many processes it is begun.
 */
export interface Batch<R extends object = object> extends BatchRecord<R> {
  /** Records of other tables that are moved on with it. */
  readonly also?: readonly BatchRecord[];
  /** Whether claims may want the rows that it locks, those of a key or group: it is committed with them then, not beside them. */
  readonly isWithClaims?: true;
  readonly creations?: readonly BatchCreation[];
  readonly changes?: readonly BatchChange[];
}

/** A record, and the table that it is of. */
export interface BatchRecord<R extends object = object> {
  readonly ledger: BatchLedger<R>;
  readonly record: R;
}

/** A run that a batch creates; those of the batch that it waits for come before it. */
export interface BatchCreation {
  readonly fresh: NewRun;
  /** Whether it is not claimable before the command `release`. */
  readonly isHeld?: boolean;
}

export interface BatchChange {
  readonly runId: string;
  readonly command: RunCommand;
  /** A run in another state is refused; undefined: none is. */
  readonly onlyIn?: readonly RunState[] | undefined;
  /** Why it is refused, without the command. */
  readonly refusal?: string | undefined;
}

/** A change of a batch that was not carried out; the others were. */
export interface BatchRefusal {
  /** Of the run. */
  readonly id: string;
  readonly detail: string;
}

/** What a batch did. */
export interface BatchDone<R extends object = object> {
  readonly record: R;
  /** Its changes, those that were refused included. */
  readonly changes: number;
  readonly refused: readonly BatchRefusal[];
}

/** The table of records that batches move on. */
export interface BatchLedger<R extends object = object> {
  /**
   * Locks what the records stand for until the transaction ends, in an order that prevents deadlocks.
   * @returns those that are to be carried out: none that was carried out, and one of those that stand for the same
   */
  lock(tx: EntityManager, records: readonly R[]): Promise<ReadonlySet<R>>;
  /** Dependencies by which a record was decided: of two records of a commit that have one in common, the first alone is carried out. Absent: none. */
  seenBy?(record: R): readonly string[];
  /** Moves them on. Their runs are written in the same transaction. @param now the time of the commit */
  write(tx: EntityManager, done: readonly BatchDone<R>[], now: Date): Promise<void>;
}

/** Whether this commit has carried the batch out: false when another one has, or the record is no longer as it was. */
export interface BatchOutcome {
  readonly kind: 'batch';
  readonly isDone: boolean;
}

export type PendingCommand =
  | ({ readonly kind: 'create'; readonly fresh: NewRun } & CommandOptions)
  | ({ readonly kind: 'change'; readonly runId: string; readonly command: RunCommand } & ChangeOptions)
  | { readonly kind: 'batch'; readonly batch: Batch; readonly caller: NonNullable<CommandOptions['caller']> }
  | { readonly kind: 'claim'; readonly claim: Claim };

/** What a command did: the run afterwards, or the id of the run of an earlier request with the same key. */
export type Effect = ({ readonly run: Run } | { readonly replayOf: string }) & {
  /** Undefined: not wanted, the run of an earlier request was removed, or the views of the group have too many bytes. */
  readonly view?: RunView | undefined;
};

export type Result = Effect | ClaimOutcome | BatchOutcome;

/** Its own record, then the others. */
export function recordsOf(batch: Batch): readonly BatchRecord[] {
  return [batch, ...(batch.also ?? [])];
}

/** The command's idempotency key, to be registered; none for a claim or a batch. */
export function keyOf(pending: PendingCommand): IdempotencyKey[] {
  if (pending.kind === 'claim' || pending.kind === 'batch' || !pending.idempotency) return [];
  return [{ ...pending.idempotency, runId: pending.kind === 'create' ? pending.fresh.id : pending.runId }];
}

/** The runs that a command names. */
export function runsOf(pending: PendingCommand): readonly string[] {
  if (pending.kind === 'change') return [pending.runId];
  const changed = pending.kind === 'batch' ? (pending.batch.changes ?? []).map(({ runId }) => runId) : [];
  return [...changed, ...parentsOf(pending, false)];
}

/** The runs, or groups, that new runs wait for and that the command does not create itself. */
export function parentsOf(pending: PendingCommand, areGroups: boolean): readonly string[] {
  if (pending.kind === 'create')
    return (pending.fresh.dependsOn ?? []).flatMap((one) => (one.isGroup === areGroups ? one.parentId : []));
  if (pending.kind !== 'batch') return [];
  const { creations = [] } = pending.batch;
  const dependencies = creations.flatMap(({ fresh }) => fresh.dependsOn ?? []);
  if (dependencies.length === 0) return [];
  const own = new Set(creations.map(({ fresh }) => fresh.id));
  return dependencies.flatMap(({ parentId, isGroup }) =>
    isGroup === areGroups && !own.has(parentId) ? parentId : [],
  );
}

/** What a change of a batch counts: about as much as a command of its own. */
const BYTES_OF_A_CHANGE = 1024;

/** Size of a command's values of free size, as their texts' lengths. */
export function bytesOf(pending: PendingCommand): number {
  switch (pending.kind) {
    case 'create':
      return bytesOfNew(pending.fresh);
    case 'change': {
      const { command } = pending;
      if (command.type === 'event') return lengthOf(command.event.payload) + lengthOf(command.event.msg);
      return command.type === 'patch' ? lengthOf(command.outputs) : 0;
    }
    case 'batch': {
      const { creations = [], changes = [] } = pending.batch;
      const created = creations.reduce((sum, { fresh }) => sum + bytesOfNew(fresh), 0);
      return created + changes.length * BYTES_OF_A_CHANGE;
    }
    case 'claim':
      return 0;
  }
}

function bytesOfNew({ inputs, outputsTemplate, attributes, image, topic }: NewRun): number {
  return lengthOf(inputs) + lengthOf(outputsTemplate) + lengthOf(attributes) + image.length + lengthOf(topic);
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
