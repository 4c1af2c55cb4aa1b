import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { SPAN_PATTERN, TIME_FORM } from '@longshore/common/json/read-time';
import { readInstant, UNIX_SECONDS } from '@longshore/common/json/read-timestamp';
import { Check } from './dto-decorators.js';

/**
 * An optional field that holds a time that a person gives: ISO 8601 with a zone, a span, or UNIX seconds, which become ISO 8601.
 * @param accepts whether the text is such a time, within the bounds of the field
 * @param bounds follows the description of the form in the message
 */
export function IsTimeOrSpan(accepts: (text: string) => boolean, bounds?: string): PropertyDecorator {
  const rule = `must be UNIX seconds, ${TIME_FORM}${bounds === undefined ? '' : `, ${bounds}`}`;
  return applyDecorators(
    Transform(({ value }: { readonly value: unknown }) =>
      typeof value === 'number' ? (readInstant(value)?.toISOString() ?? value) : value,
    ),
    Check('isTimeOrSpan', (value) => typeof value === 'string' && accepts(value), rule),
    ApiProperty({
      required: false,
      anyOf: [
        { type: 'number', ...UNIX_SECONDS },
        { type: 'string', format: 'date-time' },
        { type: 'string', pattern: SPAN_PATTERN },
      ],
    }),
  );
}
