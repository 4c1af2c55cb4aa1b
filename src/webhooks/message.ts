import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { clip } from '@longshore/common/json/text';
import type { GroupEntity } from '../database/entities/group.entity.js';
import type { ScheduleFireEntity } from '../database/entities/schedule.entity.js';
import type { WebhookConditions, WebhookEvent, WebhookPart } from '../database/entities/webhook.entity.js';
import { mergeLabels, type RunRecord } from '../runs/machine/run.js';
import { countsOf } from '../runs/storage/groups.js';
import type { Message } from './delivery/webhook-sender.js';

/** Characters of an error message that are sent. */
const MAX_ERROR = 1024;

/** An event of a run as messages need it. */
export interface RunMoment {
  readonly runId: string;
  /** Position in the timeline; null: the creation, which has none. */
  readonly index: number | null;
  readonly attempt: number;
  readonly type: string;
  readonly state: string;
  readonly t: string;
}

/** What is told of a run, and of the attempt of the event. */
export interface RunFacts extends Pick<
  RunRecord,
  | 'name'
  | 'labels'
  | 'image'
  | 'definitionId'
  | 'definitionVersion'
  | 'topic'
  | 'scheduleId'
  | 'scheduleTime'
  | 'groupId'
  | 'groupRef'
  | 'arrayIndex'
  | 'createdAt'
  | 'errorMessage'
  | 'cause'
  | 'exitCode'
  | 'startedAt'
  | 'finishedAt'
> {
  /** null: they are not asked for, or too large. */
  readonly outputs: JsonObject | null;
  /** Whether it completed after the run before it failed. */
  readonly isRecovery: boolean;
  /** Whether the attempt was started before. */
  readonly isRepeated: boolean;
}

/** What conditions are about. */
type Conditional = Pick<RunFacts, 'topic' | 'definitionId' | 'scheduleId' | 'labels'>;

/** A time of a schedule for which no run was made. */
export interface SkippedFire extends Pick<
  ScheduleFireEntity,
  'id' | 'scheduleId' | 'nominalAt' | 'untilAt' | 'firedAt' | 'commitOrder' | 'outcome' | 'reason' | 'count'
> {
  readonly labels: RunFacts['labels'];
}

/** What is read of a group that has ended. */
export const ENDED_GROUP = [
  'id',
  'name',
  'labels',
  'state',
  'size',
  'created',
  'pending',
  'assigned',
  'running',
  'completed',
  'failed',
  'cancelled',
  'scheduleId',
  'scheduleTime',
  'endings',
  'endOrder',
  'endedAt',
] as const satisfies readonly (keyof GroupEntity)[];
export type EndedGroup = Pick<GroupEntity, (typeof ENDED_GROUP)[number]>;

/** The webhook events that an event of a run may be. */
export function webhookEventsOf({ type, state }: Pick<RunMoment, 'type' | 'state'>): WebhookEvent[] {
  switch (type) {
    case 'CREATED':
      return ['run.created'];
    case 'STARTED':
      return ['run.started'];
    case 'COMPLETED':
      return ['run.completed', 'run.recovered'];
    case 'CANCELLED':
      return ['run.cancelled'];
    case 'FAILED':
      return [state === 'FAILED' ? 'run.failed' : 'run.attempt_failed'];
    case 'RECLAIMED':
      return state === 'FAILED' ? ['run.reclaimed', 'run.failed'] : ['run.reclaimed'];
    default:
      return [];
  }
}

/** Whether the event has happened to the run: some depend on more than its type and state. */
export function hasHappened(event: WebhookEvent, { isRecovery, isRepeated }: RunFacts): boolean {
  return event === 'run.recovered' ? isRecovery : !(event === 'run.started' && isRepeated);
}

/** Whether a run, a group, or a time of a schedule has a value of each list. */
export function meets({ topic, definition, schedule, label }: WebhookConditions, run: Conditional): boolean {
  const labels = Object.entries(mergeLabels(run.labels) ?? {});
  return (
    has(topic, run.topic) &&
    has(definition, run.definitionId) &&
    has(schedule, run.scheduleId) &&
    (label === undefined ||
      labels.some(([key, value]) => label.includes(key) || label.includes(`${key}=${value}`)))
  );
}

function has(values: readonly string[] | undefined, value: string | null): boolean {
  return values === undefined || (value !== null && values.includes(value));
}

/** The message about an event of a run. @param base URL of the service; undefined: it is not known */
export function runMessage(
  event: WebhookEvent,
  moment: RunMoment,
  run: RunFacts,
  { include, base }: { readonly include: readonly WebhookPart[]; readonly base: string | undefined },
): Message {
  const { runId, index, attempt, state, t } = moment;
  const isEnd = !['CREATED', 'STARTED'].includes(moment.type);
  const { startedAt, finishedAt } = run;
  const data = {
    run_id: runId,
    name: run.name ?? null,
    labels: run.labels ?? {},
    attempt,
    state,
    cause: isEnd ? run.cause : null,
    exit_code: isEnd ? run.exitCode : null,
    error_message: isEnd && run.errorMessage !== null ? clip(run.errorMessage, MAX_ERROR) : null,
    image: run.image,
    definition: run.definitionId,
    version: run.definitionVersion,
    topic: run.topic,
    schedule: scheduleOf(run),
    group: run.groupId === null ? null : { id: run.groupId, ref: run.groupRef, index: run.arrayIndex },
    duration_ms: isEnd && startedAt && finishedAt ? finishedAt.getTime() - startedAt.getTime() : null,
    url: urlOf(base, `runs/${runId}`),
    ...(include.includes('outputs') && { outputs: isEnd ? run.outputs : null }),
  };
  return message(event, [runId, ...(index === null ? [] : [index])], runId, t, data);
}

/** The message about the end of a group. @param base as for a run */
export function groupMessage(group: EndedGroup, endedAt: Date, base: string | undefined): Message {
  const { id, name, labels, state, size, endings } = group;
  return message('group.ended', [id, endings], id, endedAt.toISOString(), {
    group: id,
    name,
    labels: labels ?? {},
    state,
    size,
    counts: countsOf(group),
    schedule: scheduleOf(group),
    url: urlOf(base, `groups/${id}`),
  });
}

function scheduleOf({ scheduleId: id, scheduleTime: time }: Pick<RunFacts, 'scheduleId' | 'scheduleTime'>) {
  return id === null ? null : { id, time };
}

function urlOf(base: string | undefined, page: string): string | null {
  return base === undefined ? null : `${base.replace(/\/$/, '')}/ui/${page}`;
}

/** The message about times of a schedule for which no run was made. */
export function fireMessage(fire: SkippedFire): Message {
  const { id, scheduleId, nominalAt, untilAt, firedAt, outcome, reason, count } = fire;
  // Ids of schedules may have points and characters that headers cannot have.
  const key = [encodeURIComponent(scheduleId).replaceAll('.', '%2E'), nominalAt.getTime(), id];
  return message('schedule.skipped', key, scheduleId, firedAt.toISOString(), {
    schedule: scheduleId,
    time: nominalAt.toISOString(),
    until: untilAt.toISOString(),
    count,
    outcome,
    reason,
  });
}

/** @param key what tells it from others of the type; with the type it is the id, without points, which separate what is signed */
export function message(
  type: WebhookEvent | 'webhook.test',
  key: readonly (string | number)[],
  subject: string,
  t: string,
  data: object,
): Message {
  const messageId = [type.replaceAll('.', '-'), ...key].join('_');
  return { messageId, type, subject, body: stringifyJson({ type, timestamp: t, data }) };
}
