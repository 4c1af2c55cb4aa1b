import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { describeInteger, describeText, fits, schemaRange, schemaText } from './dto-decorators.js';
import type { IntegerRange, TextShape } from './dto-decorators.js';
import { addFieldRule, REFUSED } from './field-rules.js';

/** A query parameter's text, and the values it is limited to. */
export interface QueryText extends TextShape {
  readonly oneOf?: readonly string[];
}

const DECIMAL = /^(?:0|-?[1-9][0-9]{0,15})$/;

/** A query parameter that is a plain decimal integer (`10`, never `1.5`, `1e2`, `0x1`, ` 1`). */
export function QueryInteger(range: IntegerRange = {}): PropertyDecorator {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = range;
  const read = (text: string): unknown => {
    if (!DECIMAL.test(text)) return REFUSED;
    const value = Number(text);
    return Number.isSafeInteger(value) && value >= min && value <= max ? value : REFUSED;
  };
  return applyDecorators(
    query(read, `must be ${describeInteger(range)}`),
    ApiProperty({ type: 'integer', ...schemaRange(range) }),
  );
}

/** A query parameter that is `true` or `false`. */
export function QueryBoolean(): PropertyDecorator {
  return applyDecorators(query(readBoolean, 'must be true or false'), ApiProperty({ type: 'boolean' }));
}

/** A query parameter that is text of the given shape. It is never empty: `name=` is refused before. */
export function QueryString(shape: QueryText = {}): PropertyDecorator {
  const { oneOf } = shape;
  const words = oneOf === undefined ? describeText(shape) : `one of ${oneOf.join(', ')}`;
  const read = (text: string): unknown =>
    fits(text, shape) && (oneOf === undefined || oneOf.includes(text)) ? text : REFUSED;
  return applyDecorators(
    query(read, `must be ${words}`),
    ApiProperty({
      type: 'string',
      ...schemaText({ min: 1, ...shape }),
      ...(oneOf === undefined ? {} : { enum: [...oneOf] }),
    }),
  );
}

function readBoolean(text: string): unknown {
  if (text === 'true') return true;
  return text === 'false' ? false : REFUSED;
}

function query(read: (text: string) => unknown, message: string): PropertyDecorator {
  return (target, name) => addFieldRule(target, name, { kind: 'query', read, message });
}
