import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { Allow, IsBoolean } from 'class-validator';
import {
  Check,
  IsJsonInteger,
  IsText,
  OptionalField,
  SHOWN_LINES,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { AsJsonText } from '../../common/http/validation/free-form-json.js';
import type { JsonValue } from '@longshore/common/json/json-value';

const ANY_VALUE = [
  { type: 'string' },
  { type: 'number' },
  { type: 'boolean' },
  { type: 'object', additionalProperties: true },
  { type: 'array', items: {} },
];

/** Entries of `enum`. */
const MAX_VALUES = 100;

@ApiSchema({ name: 'InputSpecInput', description: 'Declares an input of a definition.' })
export class InputSpecInputDto {
  /**
   * string, integer, number, boolean, object or array, or their aliases str, int, float, bool, dict and list, in upper or lower
   * case: checked in the inputs of runs. `file`: the id of a file, `{"$artifact": {"file": ID}}` or `{"$artifact": {"run": ID,
   * "name": NAME}}`; the worker gets a URL in its place. Any other name is a label, which is not checked; without the prefix
   * `label:` the answer has a warning. @example string
   */
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT })
  type: string;

  /** Whether a run must have it; false unless given. */
  @OptionalField()
  @IsBoolean()
  required?: boolean;

  /** Used when a run does not give it; null is none. */
  @OptionalField()
  @AsJsonText()
  @Allow()
  @ApiProperty({ required: false, oneOf: ANY_VALUE, description: 'Any JSON value of the type' })
  default?: string;

  /** What it is for. */
  @OptionalField()
  @IsText({ max: 4096, ...SHOWN_LINES })
  description?: string;

  /** The values that are allowed: 1 to 100 of the type. */
  @OptionalField()
  @AsJsonText()
  @Check('isJsonList', isList, `must be a list of 1 to ${MAX_VALUES} items`)
  @ApiProperty({
    required: false,
    type: 'array',
    items: { oneOf: ANY_VALUE },
    minItems: 1,
    maxItems: MAX_VALUES,
  })
  enum?: string;

  /** The least number that is allowed, of an integer or a number. */
  @OptionalField()
  @AsJsonText()
  @Check('isJsonNumber', isNumber, 'must be a number')
  @ApiProperty({ required: false, type: 'number' })
  minimum?: string;

  /** The greatest number that is allowed, of an integer or a number. */
  @OptionalField()
  @AsJsonText()
  @Check('isJsonNumber', isNumber, 'must be a number')
  @ApiProperty({ required: false, type: 'number' })
  maximum?: string;

  /** How many characters a string may have. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: 2 ** 31 - 1 })
  max_length?: number;
}

function isList(text: unknown): boolean {
  const value: unknown = JSON.parse(String(text));
  return Array.isArray(value) && value.length >= 1 && value.length <= MAX_VALUES;
}

function isNumber(text: unknown): boolean {
  return /^[-\d]/.test(String(text));
}

@ApiSchema({ name: 'OutputSpecInput', description: 'Declares an output of a definition.' })
export class OutputSpecInputDto {
  /** For readers: outputs of runs are not checked. @example integer */
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT })
  type: string;
}

@ApiSchema({ name: 'InputSpec', description: 'Declares an input of a definition.' })
export class InputSpecDto {
  type: string;
  required: boolean;
  /** null is none. */
  @ApiProperty({ oneOf: [...ANY_VALUE, { type: 'null' }], description: 'Any JSON value of the type' })
  default: JsonValue;
  /** What it is for; absent unless given. */
  description?: string;
  /** The values that are allowed; absent: all. */
  @ApiProperty({ required: false, type: 'array', items: { oneOf: ANY_VALUE } })
  enum?: readonly JsonValue[];
  /** The least number that is allowed; absent: any. */
  minimum?: number;
  /** The greatest number that is allowed; absent: any. */
  maximum?: number;
  /** How many characters a string may have; absent: any number. */
  @ApiProperty({ type: 'integer' })
  max_length?: number;
}

@ApiSchema({ name: 'OutputSpec', description: 'Declares an output of a definition.' })
export class OutputSpecDto {
  type: string;
}
