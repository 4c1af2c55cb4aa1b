import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';
import { UNIX_SECONDS } from '@longshore/common/json/read-timestamp';
import {
  Check,
  IsJsonInteger,
  IsText,
  IsTextList,
  schemaText,
  type IntegerRange,
  type SizeLimit,
  type TextShape,
} from './dto-decorators.js';

/** A query parameter's text, and the values it is limited to. */
interface QueryText extends TextShape {
  readonly oneOf?: readonly string[];
  /** Whether requests must have it. */
  readonly required?: boolean;
}

/** The range of an integer, and what counts if it is not given. */
interface QueryNumber extends IntegerRange {
  readonly default?: number;
}

/** Names of the query parameters that may be given several times. */
export const LIST_PARAMETERS = new Set<string>();

const DECIMAL = /^(?:0|-?[1-9][0-9]{0,15})$/;

/** A query parameter that may be given several times: a list of texts of the given shape. */
export function QueryTextList(
  shape: TextShape,
  { max }: Required<Pick<SizeLimit, 'max'>>,
): PropertyDecorator {
  return (target, name) => {
    LIST_PARAMETERS.add(String(name));
    IsTextList(shape, { max })(target, name);
  };
}

/** An optional query parameter that is a plain decimal integer (`10`, never `1.5`, `1e2`, `0x1`, ` 1`). */
export function QueryInteger({ default: initial, ...range }: QueryNumber = {}): PropertyDecorator {
  return applyDecorators(
    ...(initial === undefined ? [] : [ApiProperty({ required: false, default: initial })]),
    IsOptional(),
    Transform(readDecimal),
    IsJsonInteger(range),
  );
}

/** An optional query parameter that is `true` or `false`. */
export function QueryBoolean(): PropertyDecorator {
  return applyDecorators(
    IsOptional(),
    Transform(readBoolean),
    IsBoolean({ message: '$property must be true or false' }),
    ApiProperty({ type: 'boolean' }),
  );
}

/** A query parameter that is text of the given shape, optional unless `required`. It is never empty: `name=` is refused before. */
export function QueryString({ oneOf, required = false, ...shape }: QueryText = {}): PropertyDecorator {
  return applyDecorators(
    ...(required ? [] : [IsOptional()]),
    IsText(shape),
    ...(oneOf === undefined
      ? []
      : [IsIn(oneOf, { message: `$property must be one of ${oneOf.join(', ')}` })]),
    ApiProperty({
      type: 'string',
      ...schemaText({ min: 1, ...shape }),
      ...(oneOf === undefined ? {} : { enum: [...oneOf] }),
    }),
  );
}

/** An optional query parameter that is a time in a form of `readFilterTime`, which reads its text. */
export function QueryTime(): PropertyDecorator {
  return applyDecorators(
    IsOptional(),
    Check('isText', (value) => typeof value === 'string', 'must be a string'),
    ApiProperty({
      required: false,
      oneOf: [
        { type: 'integer', ...UNIX_SECONDS },
        { type: 'string', format: 'date-time', minLength: 1 },
        { type: 'string', format: 'date', minLength: 1 },
      ],
    }),
  );
}

function readDecimal({ value }: { readonly value: unknown }): unknown {
  return typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value;
}

function readBoolean({ value }: { readonly value: unknown }): unknown {
  if (value === 'true') return true;
  return value === 'false' ? false : value;
}
