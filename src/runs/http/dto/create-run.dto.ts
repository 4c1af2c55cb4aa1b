import { ApiSchema } from '@nestjs/swagger';
import {
  IsJsonInteger,
  IsText,
  JsonObject,
  Nested,
  OptionalField,
} from '../../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { ConstraintsInputDto } from './constraints.dto.js';
import { EventDeliveryInputDto } from './event-delivery.dto.js';
import { RetryPolicyInputDto } from './retry-policy.dto.js';
import { IMAGE_REFERENCE, PRIORITY } from './field-shapes.js';
import { TimeoutsInputDto } from './timeouts.dto.js';

@ApiSchema({ name: 'OpRunCreate', description: 'A run to create.' })
export class CreateRunDto {
  /** Container image. @example longshore/word-count */
  @IsText(IMAGE_REFERENCE)
  image: string;

  /** Higher is scheduled first; 0 unless given. @example 0 */
  @OptionalField()
  @IsJsonInteger(PRIORITY)
  priority?: number;

  /** What the container finds in its input file. @example {"text": "to be or not to be"} */
  @OptionalField()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** Template that the container finds in its output file. */
  @OptionalField()
  @JsonObject()
  outputs?: JsonObjectValue;

  /** Hardware that the run needs. */
  @OptionalField()
  @Nested(() => ConstraintsInputDto)
  constraints?: ConstraintsInputDto;

  /** How often a failed attempt is repeated. */
  @OptionalField()
  @Nested(() => RetryPolicyInputDto)
  retry_policy?: RetryPolicyInputDto;

  /** How long the run may wait for its start and how long an attempt may run. */
  @OptionalField()
  @Nested(() => TimeoutsInputDto)
  timeouts?: TimeoutsInputDto;

  /** Feed that mirrors the run's events. */
  @OptionalField()
  @Nested(() => EventDeliveryInputDto)
  event_delivery?: EventDeliveryInputDto;
}
