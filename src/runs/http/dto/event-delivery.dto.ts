import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import { IsText, JsonObject, OptionalField } from '../../../common/http/validation/dto-decorators.js';
import { isJsonObject } from '@longshore/common/json/json-value';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';

const DESCRIPTION = "The feed that mirrors a run's events.";

@ApiSchema({ name: 'EventDeliveryInput', description: DESCRIPTION })
export class EventDeliveryInputDto {
  /** Topic of the event feed. @example word-counts */
  @IsText({ min: 1, max: 255, pattern: NO_CONTROL_CHARACTERS, form: 'a string without control characters' })
  topic: string;

  /** Labels for readers of the feed. */
  @OptionalField()
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  @JsonObject()
  @ValidateBy({
    name: 'isTextMap',
    validator: {
      validate: (value: unknown) =>
        isJsonObject(value) && Object.values(value).every((item) => typeof item === 'string'),
      defaultMessage: () => '$property must be an object whose values are strings',
    },
  })
  attributes?: Record<string, string>;
}

@ApiSchema({ name: 'EventDelivery', description: DESCRIPTION })
export class EventDeliveryDto {
  /** Topic of the event feed. @example word-counts */
  topic: string;

  /** Labels for readers of the feed. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  attributes?: Record<string, string>;
}
