import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { Allow, IsBoolean } from 'class-validator';
import { IsText, OptionalField } from '../../common/http/validation/dto-decorators.js';
import { AsJsonText } from '../../common/http/validation/free-form-json.js';
import type { JsonValue } from '@longshore/common/json/json-value';

const ANY_VALUE = [
  { type: 'string' },
  { type: 'number' },
  { type: 'boolean' },
  { type: 'object', additionalProperties: true },
  { type: 'array', items: {} },
];

@ApiSchema({ name: 'InputSpecInput', description: 'Declares an input of a definition.' })
export class InputSpecInputDto {
  /**
   * string, integer, number, boolean, object or array, or their aliases str, int, float, bool, dict and list, in upper or lower
   * case: checked in the inputs of runs. Any other name is a label, which is not checked; without the prefix `label:` the answer
   * has a warning. @example string
   */
  @IsText({ min: 1, max: 128 })
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
}

@ApiSchema({ name: 'OutputSpecInput', description: 'Declares an output of a definition.' })
export class OutputSpecInputDto {
  /** For readers: outputs of runs are not checked. @example integer */
  @IsText({ min: 1, max: 128 })
  type: string;
}

@ApiSchema({ name: 'InputSpec', description: 'Declares an input of a definition.' })
export class InputSpecDto {
  type: string;
  required: boolean;
  /** null is none. */
  @ApiProperty({ oneOf: [...ANY_VALUE, { type: 'null' }], description: 'Any JSON value of the type' })
  default: JsonValue;
}

@ApiSchema({ name: 'OutputSpec', description: 'Declares an output of a definition.' })
export class OutputSpecDto {
  type: string;
}
