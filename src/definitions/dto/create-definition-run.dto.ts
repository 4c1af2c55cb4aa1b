import { ApiSchema } from '@nestjs/swagger';
import { IsJsonInteger, JsonObject, OptionalField } from '../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { PRIORITY } from '../../runs/http/dto/run-options.dto.js';

@ApiSchema({ name: 'DefinitionRunCreate', description: 'A run to create from a definition.' })
export class CreateDefinitionRunDto {
  /** Inputs that the definition declares; its defaults fill in the rest. @example {"text": "to be or not to be"} */
  @OptionalField()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** Higher is scheduled first; 0 unless given. */
  @OptionalField()
  @IsJsonInteger(PRIORITY)
  priority?: number;

  /** Template that the container finds in its output file. */
  @OptionalField()
  @JsonObject()
  outputs?: JsonObjectValue;
}
