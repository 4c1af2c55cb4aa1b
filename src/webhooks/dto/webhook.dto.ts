import { ApiExtraModels, ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsBoolean } from 'class-validator';
import { readTime } from '@longshore/common/json/read-time';
import {
  Check,
  IsJsonInteger,
  IsText,
  IsTextList,
  Nested,
  OptionalField,
  SHOWN_LINES,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { IsTimeOrSpan } from '../../common/http/validation/time-field.js';
import {
  WEBHOOK_EVENTS,
  WEBHOOK_PARTS,
  type WebhookEntity,
  type WebhookEvent,
  type WebhookPart,
} from '../../database/entities/webhook.entity.js';
import { LABEL_FILTER } from '../../runs/dto/execution-options.dto.js';
import type { ShownWebhook } from '../webhook.repository.js';

/** Values of one list of `where`. */
const MAX_VALUES = 100;
const MAX_DESCRIPTION = 4096;
const URL_TEXT = { min: 1, max: 2048, ...SHOWN_TEXT } as const;
/** Seconds for which an old secret may still sign. */
const MAX_KEEP_S = 30 * 86_400;

const DEFAULT_EVENTS: readonly WebhookEvent[] = ['run.completed', 'run.failed', 'run.cancelled'];

@ApiSchema({
  name: 'WebhookWhere',
  description:
    'The runs and groups of which a webhook is told: each list that is given must have a value of the run or group. It does not concern webhook.disabled.',
})
export class WebhookWhereDto {
  /** Topics. */
  @OptionalField()
  @IsTextList({ min: 1, max: 255, ...SHOWN_TEXT }, { min: 1, max: MAX_VALUES })
  topic?: string[];

  /** Ids of definitions. */
  @OptionalField()
  @IsTextList({ min: 1, max: 255, ...SHOWN_TEXT }, { min: 1, max: MAX_VALUES })
  definition?: string[];

  /** Ids of schedules. */
  @OptionalField()
  @IsTextList({ min: 1, max: 255, ...SHOWN_TEXT }, { min: 1, max: MAX_VALUES })
  schedule?: string[];

  /** Labels, as `key=value` or `key`. @example ["team=vision"] */
  @OptionalField()
  @IsTextList(LABEL_FILTER, { min: 1, max: MAX_VALUES })
  label?: string[];
}

/** What a webhook is told. */
abstract class WebhookFieldsDto {
  /** Text for people; may have several lines. */
  @OptionalField()
  @IsText({ max: MAX_DESCRIPTION, ...SHOWN_LINES })
  description?: string;

  /** Of what it is told; unless given, of the ends of runs: completed, failed and cancelled. */
  @OptionalField()
  @Check(
    'isEventList',
    isListOf(WEBHOOK_EVENTS, 1),
    `must be a list of different ones out of ${WEBHOOK_EVENTS.join(', ')}`,
  )
  @ApiProperty({
    enum: WEBHOOK_EVENTS,
    enumName: 'WebhookEvent',
    isArray: true,
    minItems: 1,
    uniqueItems: true,
    required: false,
  })
  events?: WebhookEvent[];

  @OptionalField()
  @Nested(() => WebhookWhereDto)
  @ApiProperty({ type: WebhookWhereDto, required: false })
  where?: WebhookWhereDto;

  /** `outputs`: messages about the end of a run have its outputs, up to 20 KiB; of larger ones null. */
  @OptionalField()
  @Check(
    'isPartList',
    isListOf(WEBHOOK_PARTS, 0),
    `must be a list of different ones out of ${WEBHOOK_PARTS.join(', ')}`,
  )
  @ApiProperty({
    enum: WEBHOOK_PARTS,
    enumName: 'WebhookPart',
    isArray: true,
    uniqueItems: true,
    required: false,
  })
  include?: WebhookPart[];

  /** Whether it is sent anything; true unless given. */
  @OptionalField()
  @IsBoolean({ message: '$property must be true or false' })
  enabled?: boolean;
}

@ApiSchema({ name: 'WebhookCreate', description: 'A new webhook.' })
@ApiExtraModels(WebhookWhereDto)
export class CreateWebhookDto extends WebhookFieldsDto {
  /**
   * An https URL without user name, password and fragment. The addresses of its host must be public; the settings SERVICE_WEBHOOK_HTTP
   * and SERVICE_WEBHOOK_NETWORKS allow more. @example https://example.com/hooks/longshore
   */
  @IsText(URL_TEXT)
  url: string;
}

@ApiSchema({
  name: 'WebhookUpdate',
  description: 'Fields of a webhook to change; absent ones stay as they are.',
})
export class UpdateWebhookDto extends WebhookFieldsDto {
  /** As of a new webhook. */
  @OptionalField()
  @IsText(URL_TEXT)
  url?: string;
}

@ApiSchema({
  name: 'WebhookGap',
  description: 'A time of which retention may have removed events before they were sent.',
})
export class WebhookGapDto {
  @ApiProperty({ format: 'date-time' })
  from: string;
  @ApiProperty({ format: 'date-time' })
  until: string;
}

@ApiSchema({ name: 'Webhook', description: 'An endpoint that is told of events, without its secret.' })
export class WebhookDto {
  /** UUID version 7. */
  id: string;
  url: string;
  @ApiProperty({ type: 'string', nullable: true })
  description: string | null;
  @ApiProperty({ enum: WEBHOOK_EVENTS, enumName: 'WebhookEvent', isArray: true })
  events: WebhookEvent[];
  where: WebhookWhereDto;
  @ApiProperty({ enum: WEBHOOK_PARTS, enumName: 'WebhookPart', isArray: true })
  include: WebhookPart[];
  enabled: boolean;
  /** Why the service disabled it; null: it did not. */
  @ApiProperty({ type: 'string', nullable: true })
  disabled_reason: string | null;
  /** Until when the secret before the last rotation signs, too; null: it does not. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  old_secret_until: string | null;
  /** Failed tries since the last successful one. From 10 on the endpoint gets one message in 30 seconds. */
  @ApiProperty({ type: 'integer' })
  failures: number;
  /** When the first of these tries failed; after 5 days the webhook is disabled. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  failing_since: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  last_success_at: string | null;
  /** Messages that wait for another try; with 1,000 of them no further events are read. */
  @ApiProperty({ type: 'integer' })
  parked: number;
  /** The last time of which retention may have removed events before they were sent; null: there is none. */
  @ApiProperty({ type: WebhookGapDto, nullable: true })
  gap: WebhookGapDto | null;
  /** What was committed before was read. */
  @ApiProperty({ format: 'date-time' })
  read_until: string;
  /** The time that is sent again; null: none is. */
  @ApiProperty({ type: WebhookGapDto, nullable: true })
  replay: WebhookGapDto | null;
  @ApiProperty({ format: 'date-time' })
  created_at: string;
  @ApiProperty({ format: 'date-time' })
  updated_at: string;
}

@ApiSchema({ name: 'WebhookWithSecret', description: 'A webhook with its new secret.' })
export class WebhookWithSecretDto extends WebhookDto {
  /** Verifies messages. It is shown this once. @example whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD */
  secret: string;
}

@ApiSchema({ name: 'WebhookSecretRotation', description: 'How to rotate the secret of a webhook.' })
export class RotateSecretDto {
  /** Seconds for which messages have a signature of the old secret, too; 0 unless given. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: MAX_KEEP_S })
  keep_old_s?: number;
}

@ApiSchema({ name: 'WebhookReplay', description: 'A time whose events are sent again.' })
export class ReplayDto {
  /** UNIX seconds, an ISO 8601 date and time with a zone, or a span before now such as `2h`. @example 2h */
  @ApiProperty({ required: true })
  @IsTimeOrSpan((value) => readTime(value, Date.now(), -1) !== null)
  from: string;

  /** Where it ends; unless given, it goes on with what follows, and the webhook is set back to `from`. */
  @OptionalField()
  @IsTimeOrSpan((value) => readTime(value, Date.now(), -1) !== null)
  until?: string;
}

/** What people set of a webhook. */
export function toSettings({ url, description, events, conditions, include, isEnabled }: WebhookEntity) {
  return { url, description, events, where: { ...conditions }, include, enabled: isEnabled };
}

/** The columns that the fields of a request set. */
export function toColumns({
  url,
  description,
  events,
  where,
  include,
  enabled,
}: UpdateWebhookDto): Partial<WebhookEntity> {
  return {
    ...(url !== undefined && { url }),
    ...(description !== undefined && { description: description === '' ? null : description }),
    ...(events !== undefined && { events: WEBHOOK_EVENTS.filter((one) => events.includes(one)) }),
    ...(where !== undefined && { conditions: { ...where } }),
    ...(include !== undefined && { include }),
    ...(enabled !== undefined && { isEnabled: enabled }),
  };
}

/** The columns of a new webhook that people may set. */
export function toNewColumns(body: CreateWebhookDto) {
  const {
    url,
    description = null,
    events = [...DEFAULT_EVENTS],
    conditions = {},
    include = [],
    isEnabled = true,
  } = toColumns(body);
  return { url: url ?? '', description, events, conditions, include, isEnabled };
}

/** A webhook as responses have it. */
export function toWebhookDto(webhook: ShownWebhook): WebhookDto {
  const { id, disabledReason, oldSecretUntil, failures, failingSince, lastSuccessAt, parked } = webhook;
  const { gap, replay, position, createdAt, updatedAt } = webhook;
  return {
    id,
    ...toSettings(webhook),
    disabled_reason: disabledReason,
    old_secret_until: oldSecretUntil?.toISOString() ?? null,
    failures,
    failing_since: failingSince?.toISOString() ?? null,
    last_success_at: lastSuccessAt?.toISOString() ?? null,
    parked,
    gap: gap && { from: gap.from, until: gap.until },
    read_until: position.readAt,
    replay: replay && { from: replay.from, until: replay.until ?? '' },
    created_at: createdAt.toISOString(),
    updated_at: updatedAt.toISOString(),
  };
}

function isListOf(names: readonly string[], min: number): (value: unknown) => boolean {
  return (value) =>
    Array.isArray(value) &&
    value.length >= min &&
    new Set(value).size === value.length &&
    value.every((one) => names.includes(String(one)));
}
