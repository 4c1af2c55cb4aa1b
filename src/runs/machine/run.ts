import type { JsonObject } from '@longshore/common/json/json-value';
import type { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import type { Labels, OnLimit, RunEntity } from '../../database/entities/run.entity.js';
import type { EndCause } from './event-types.js';
import type { RunState } from './run-state.js';

/** See `OnLimit`. */
export const ON_LIMIT = ['queue', 'skip', 'cancel_oldest'] as const satisfies readonly OnLimit[];

/** The largest limit of a concurrency key. */
export const MAX_CONCURRENCY_LIMIT = 10_000;

/** Attempts that one run may have; the attempt with this number is the last. */
export const MAX_ATTEMPTS_OF_A_RUN = 1000;

/** Fields that the state machine reads and that never change after the creation. */
export const FIXED_FIELDS = [
  'id',
  'maxAttempts',
  'backoffS',
  'maxBackoffS',
  'startWithinS',
  'attemptTimeoutS',
  'topic',
  'vramMb',
  'cpu',
  'requirementId',
  'concurrencyKey',
  'concurrencyLimit',
  'startAt',
  'retryOn',
  'createdAt',
  'scheduleId',
  'groupId',
  'hasSources',
  'hasFiles',
] as const satisfies readonly (keyof RunEntity)[];

/** Fields that change only when an attempt ends by a failure after which the run grows. */
export const GROWING_FIELDS = ['ramMb', 'extraConstraints'] as const satisfies readonly (keyof RunEntity)[];

/** Fields that the state machine changes, besides `outputs`. */
export const CHANGING_FIELDS = [
  ...GROWING_FIELDS,
  'state',
  'priority',
  'progress',
  'attempt',
  'attemptId',
  'firstEvent',
  'eventCount',
  'failures',
  'reclaims',
  'repeatedLosses',
  'lossWorker',
  'gpuId',
  'gpuIds',
  'workerId',
  'errorMessage',
  'cause',
  'exitCode',
  'cancelReason',
  'avoidedWorker',
  'noteCount',
  'noteBytes',
  'queuedAt',
  'notBefore',
  'waitsFor',
  'dependents',
  'reopens',
  'assignedAt',
  'preparingAt',
  'startedAt',
  'finishedAt',
  'updatedAt',
] as const satisfies readonly (keyof RunEntity)[];

export type ChangingField = (typeof CHANGING_FIELDS)[number];

export type RunRecord = Readonly<
  Omit<RunEntity, 'state' | 'outcome' | 'endedWorker' | 'size' | 'cause' | 'request'>
> & {
  readonly state: RunState;
  readonly cause: EndCause | null;
};

/** The part of a run that the state machine decides by, with its current attempt. All other fields are only stored. */
export type Run = Pick<RunRecord, (typeof FIXED_FIELDS)[number] | ChangingField> & {
  /** Outputs set by a command; undefined: as stored; null: the template that the run was created with. */
  readonly outputs?: JsonObject | null;
  /** Read only for commands on labels, and set by them; undefined: as stored. */
  readonly labels?: Labels | null;
  readonly name?: string | null;
};

/** A run as a group finds it. */
export type FoundRun = Run & {
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
  /** What feeds show with its events; null: it has none, or they are too large to be read for every command. */
  readonly attributes: JsonObject | null;
  readonly hasAttributes: boolean;
  /** What feeds show with its events of a run with a topic; null: it has none. */
  readonly feedName: string | null;
  /** As `attributes`. */
  readonly feedLabels: Labels | null;
  readonly hasFeedLabels: boolean;
};

/** What is said of the end of an attempt, while it has none. */
export const NO_END = {
  errorMessage: null,
  cause: null,
  exitCode: null,
  cancelReason: null,
  avoidedWorker: null,
  finishedAt: null,
} as const satisfies Partial<RunRecord>;

/** Fields that have the same value in every new attempt. */
export const NEW_ATTEMPT = {
  ...NO_END,
  state: 'PENDING',
  progress: 0,
  outputs: null,
  gpuId: null,
  gpuIds: null,
  workerId: null,
  noteCount: 0,
  noteBytes: 0,
  assignedAt: null,
  preparingAt: null,
  startedAt: null,
} as const satisfies Partial<RunRecord>;

/** A run that has lost no worker since it was created, or since somebody wanted another attempt. */
export const NO_LOSSES = {
  reclaims: 0,
  repeatedLosses: 0,
  lossWorker: null,
} as const satisfies Partial<RunRecord>;

/** Fields that have the same value in every new run. */
export const INITIAL_VALUES = {
  ...NEW_ATTEMPT,
  ...NO_LOSSES,
  attempt: 1,
  firstEvent: 0,
  eventCount: 0,
  failures: 0,
  reruns: null,
  waitsFor: null,
  dependents: null,
  reopens: null,
} as const satisfies Partial<RunRecord>;

/** Fields that hold the time of the creation in a new run. */
export const CREATION_TIMES = ['createdAt', 'queuedAt', 'updatedAt'] as const;

/** The optional fields of a run that uses none of them. */
export const NO_OPTIONS = {
  extraConstraints: null,
  options: null,
  selector: null,
  requirementId: null,
  concurrencyKey: null,
  concurrencyLimit: null,
  concurrencyOnLimit: null,
  startAt: null,
  retryOn: null,
  name: null,
  labels: null,
  scheduleId: null,
  scheduleTime: null,
  groupId: null,
  groupRef: null,
  arrayIndex: null,
  arraySize: null,
  hasSources: null,
  hasFiles: null,
} as const satisfies Partial<RunRecord>;

/** What a run is created with: every field of the entity that creation does not set itself. Validated before. */
export type NewRun = Omit<
  RunRecord,
  keyof typeof INITIAL_VALUES | (typeof CREATION_TIMES)[number] | 'notBefore'
> &
  Pick<RunEntity, 'request'> & {
    /** Runs and groups that it waits for; undefined: none. */
    readonly dependsOn?: readonly Dependency[] | undefined;
    /** Ids of files that it gets; undefined: none. */
    readonly files?: readonly string[] | undefined;
    /** Times of schedules for whose runs and groups it waits; undefined: none. */
    readonly awaitedTimes?: readonly AwaitedTime[] | undefined;
  };

/** A file of an attempt, as it is found in the store. */
export type NewArtifact = Omit<ArtifactEntity, 'runId' | 'attempt' | 'at' | 'removedAt'>;

/** What an attempt has left in the store of files when its end was reported. */
export interface LeftFiles {
  readonly attempt: number;
  readonly artifacts: readonly NewArtifact[];
}

/** What the end of a run or group must be for those that wait for it. */
export const NEEDS = ['completed', 'failed', 'ended'] as const;
export type Need = (typeof NEEDS)[number];

/** A run or a group that must end first. */
export interface Dependency {
  readonly parentId: string;
  readonly isGroup: boolean;
  readonly need: Need;
}

/** A run or a group that must end first, and that a schedule makes for one of its times. */
export interface AwaitedTime {
  readonly scheduleId: string;
  readonly nominalAt: Date;
  readonly need: Need;
}

/** Whether the end of a run or group, by its state, is what those need that wait for it. */
export function isMet(need: Need, endState: string): boolean {
  return need === 'ended' || need === endState.toLowerCase();
}

/** A run that is to be inserted. */
export type CreatedRun = RunRecord & Pick<RunEntity, 'request'>;

/** The run as it is created. @param now the database's time */
export function createRun(
  { dependsOn: _dependsOn, awaitedTimes: _times, files: _files, ...fresh }: NewRun,
  now: Date,
): CreatedRun {
  // The spread of many fields comes last: V8 adds fields to a large copy slowly.
  const notBefore = waitForStart(fresh, now);
  return { createdAt: now, queuedAt: now, updatedAt: now, notBefore, ...INITIAL_VALUES, ...fresh };
}

/** The `notBefore` of a run that is not claimable until other runs have ended: no time ends that. */
export const HELD = new Date('9999-12-31T00:00:00.000Z');

/** What a new attempt waits for: values of inputs that are still to be read from outputs, else its `start_at`. */
export function waitOf(
  run: Pick<Run, 'startAt' | 'hasSources'>,
  now: Date,
): Pick<Run, 'notBefore' | 'waitsFor'> {
  return run.hasSources === true
    ? { notBefore: HELD, waitsFor: 0 }
    : { notBefore: waitForStart(run, now), waitsFor: null };
}

/** Whether the run waits for the end of other ones. */
export function isHeld({ notBefore }: Pick<Run, 'notBefore'>): boolean {
  return notBefore?.getTime() === HELD.getTime();
}

/** Until when a pending run waits for its `start_at`; null: it has none, or it is past. */
export function waitForStart({ startAt }: Pick<Run, 'startAt'>, now: Date): Date | null {
  return startAt !== null && startAt > now ? startAt : null;
}

export interface TimelineEntry {
  readonly runId: string;
  /** Position in the timeline of the run, from 0, without gaps. */
  readonly index: number;
  readonly attempt: number;
  readonly type: string;
  readonly msg: string | number;
  readonly payload: JsonObject;
  readonly t: Date;
  /** State of the run after the command that recorded the entry. */
  readonly state: RunState;
  /** Id of the API key that sent it; null: the service itself. */
  readonly sender: string | null;
}

/** An attempt that has ended and is followed by another one. */
export interface EndedAttempt extends Pick<
  Run,
  | 'attempt'
  | 'state'
  | 'progress'
  | 'outputs'
  | 'gpuId'
  | 'gpuIds'
  | 'workerId'
  | 'errorMessage'
  | 'cause'
  | 'exitCode'
  | 'cancelReason'
  | 'firstEvent'
  | 'queuedAt'
  | 'assignedAt'
  | 'startedAt'
> {
  readonly id: string;
  readonly runId: string;
  /** null: that of the run, which never grows. */
  readonly ramMb: number | null;
  /** Index after the last timeline entry of this attempt. */
  readonly endEvent: number;
  readonly finishedAt: Date;
}

/** The part of a run that says which resources it asks for. */
export type ConstrainedRun = Pick<Run, 'cpu' | 'extraConstraints'>;

/** Thousandths of a core that the run asks for; 0: any number. */
export function cpuMillisOf({ cpu, extraConstraints }: ConstrainedRun): number {
  return extraConstraints?.cpu_millis ?? cpu * 1000;
}

/** GPUs that the run asks for and no other run may use. */
export function gpusOf({ extraConstraints }: Pick<Run, 'extraConstraints'>): number {
  return extraConstraints?.gpus ?? 0;
}

/** Tags that each GPU of the run must have. */
export function gpuTagsOf({ extraConstraints }: Pick<Run, 'extraConstraints'>): readonly string[] {
  return extraConstraints?.gpu_selector ?? [];
}

/** A list of GPUs as it is stored; null for an empty one. */
export function joinGpuIds(ids: readonly number[]): string | null {
  return ids.length === 0 ? null : ids.join(',');
}

/** The GPUs of a stored list. */
export function readGpuIds(joined: string): number[] {
  return joined.split(',').map(Number);
}

/** Labels that a run may have. */
export const MAX_LABELS = 32;

/** Labels to set, by key; null removes the one of this key. */
export type LabelChanges = Readonly<Record<string, string | null>>;

/** The labels after the changes, the last of a key counts; null: none are left. */
export function mergeLabels(...layers: readonly (LabelChanges | null | undefined)[]): Labels | null {
  const merged = new Map(layers.flatMap((layer) => Object.entries(layer ?? {})));
  const left = [...merged].filter((entry): entry is [string, string] => entry[1] !== null);
  return left.length === 0 ? null : Object.fromEntries(left);
}

/** Whether a run may have them. */
export function areTooMany(labels: Labels | null): boolean {
  return labels !== null && Object.keys(labels).length > MAX_LABELS;
}
