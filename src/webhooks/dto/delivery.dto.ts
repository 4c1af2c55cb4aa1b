import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { DELIVERY_STATES, type DeliveryState } from '../../database/entities/webhook.entity.js';
import type { ShownDelivery } from '../delivery.repository.js';

/** Largest number of deliveries on a page, and the default. */
const MAX_LISTED_DELIVERIES = 1000;
export const DEFAULT_LISTED_DELIVERIES = 100;

@ApiSchema({
  name: 'WebhookDelivery',
  description: 'A message to the endpoint of a webhook, and its last try.',
})
export class WebhookDeliveryDto {
  /** Grows with each delivery. */
  id: string;
  /** The header `webhook-id`: the same for each try, and for a replay. */
  message_id: string;
  type: string;
  /** Id of what the message is about: of a run, or of a webhook. */
  subject: string;
  /** `parked`: it is tried again; the others are final. */
  @ApiProperty({ enum: DELIVERY_STATES, enumName: 'WebhookDeliveryState' })
  state: DeliveryState;
  /** Tries after which a failed one is not tried again are 10. 0: it waits behind an earlier message about the same. */
  @ApiProperty({ type: 'integer' })
  tries: number;
  /** HTTP status of the last answer; null: there was none. */
  @ApiProperty({ type: 'integer', nullable: true })
  status: number | null;
  @ApiProperty({ type: 'integer', nullable: true })
  duration_ms: number | null;
  /** The first 512 characters of the last answer, or why there was none. */
  @ApiProperty({ type: 'string', nullable: true })
  detail: string | null;
  @ApiProperty({ format: 'date-time' })
  created_at: string;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  tried_at: string | null;
  /** Of a parked one; an earlier message about the same goes first. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  next_try_at: string | null;
}

export class ListDeliveriesQueryDto {
  /** Deliveries of a page. */
  @QueryInteger({ min: 1, max: MAX_LISTED_DELIVERIES, default: DEFAULT_LISTED_DELIVERIES })
  limit?: number;

  /** Id of the last delivery of the page before; the page continues with older ones. */
  @QueryString({ pattern: /^[0-9]{1,18}$/, form: 'the id of a delivery' })
  after?: string;

  /** Only those in this state. */
  @ApiProperty({ enum: DELIVERY_STATES, enumName: 'WebhookDeliveryState', required: false })
  @QueryString({ oneOf: DELIVERY_STATES })
  state?: DeliveryState;
}

/** A delivery as responses have it. */
export function toDeliveryDto(delivery: ShownDelivery): WebhookDeliveryDto {
  const { id, messageId, type, subject, state, tries, status, durationMs, detail } = delivery;
  return {
    id,
    message_id: messageId,
    type,
    subject,
    state,
    tries,
    status,
    duration_ms: durationMs,
    detail,
    created_at: delivery.createdAt.toISOString(),
    tried_at: delivery.triedAt?.toISOString() ?? null,
    next_try_at: delivery.dueAt?.toISOString() ?? null,
  };
}
