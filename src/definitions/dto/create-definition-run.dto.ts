import { ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsJsonInteger, JsonObject } from '../../http/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '../../json/json-value.js';
import { PRIORITY } from '../../runs/dto/field-shapes.js';

@ApiSchema({ name: 'DefinitionRunCreate', description: 'A run to create from a definition.' })
export class CreateDefinitionRunDto {
  /** Inputs that the definition declares; its defaults fill in the rest. @example {"text": "to be or not to be"} */
  @IsOptional()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** Higher is scheduled first; 0 unless given. */
  @IsOptional()
  @IsJsonInteger(PRIORITY)
  priority?: number;

  /** Template that the container finds in its output file. */
  @IsOptional()
  @JsonObject()
  outputs?: JsonObjectValue;
}
