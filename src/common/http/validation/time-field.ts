import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { SPAN_PATTERN, TIME_FORM } from '@longshore/common/json/read-time';
import { Check } from './dto-decorators.js';

/**
 * An optional field that holds a time that a person gives: ISO 8601 with a zone, or a span.
 * @param accepts whether the text is such a time, within the bounds of the field
 * @param bounds follows the description of the form in the message
 */
export function IsTimeOrSpan(accepts: (text: string) => boolean, bounds?: string): PropertyDecorator {
  const rule = bounds === undefined ? `must be ${TIME_FORM}` : `must be ${TIME_FORM}, ${bounds}`;
  return applyDecorators(
    Check('isTimeOrSpan', (value) => typeof value === 'string' && accepts(value), rule),
    ApiProperty({
      required: false,
      anyOf: [
        { type: 'string', format: 'date-time' },
        { type: 'string', pattern: SPAN_PATTERN },
      ],
    }),
  );
}
