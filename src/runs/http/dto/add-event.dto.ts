import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import { IsText, JsonObject, OptionalField } from '../../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { EVENT_TYPE_PATTERN } from '../../machine/run-event.js';

@ApiSchema({ name: 'AddEventRequest', description: 'An event to add to the timeline of a run.' })
export class AddEventDto {
  /** STARTED, PROGRESS, COMPLETED, FAILED, CANCELLED, RETRIED, or a type of your own. @example PROGRESS */
  @ApiProperty({ pattern: EVENT_TYPE_PATTERN.source })
  @IsText({ min: 1, max: 64 })
  type: string;

  /** Text, or for PROGRESS the percentage. @example 40 */
  @ValidateBy({
    name: 'isMessage',
    validator: {
      validate: (value: unknown) => typeof value === 'string' || Number.isSafeInteger(value),
      defaultMessage: () => '$property must be a string or an integer',
    },
  })
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }] })
  msg: string | number;

  /** What belongs to the event; STARTED, COMPLETED, FAILED and RETRIED read fields of it. */
  @OptionalField()
  @JsonObject()
  payload?: JsonObjectValue;
}
