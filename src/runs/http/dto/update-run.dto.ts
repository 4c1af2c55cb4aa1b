import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  IsJsonInteger,
  IsText,
  JsonObject,
  OptionalField,
} from '../../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { RUN_STATES } from '../../machine/run-state.js';
import { PRIORITY } from './field-shapes.js';

@ApiSchema({ name: 'OpRunUpdate', description: 'A direct change of a run. Absent fields stay unchanged.' })
export class UpdateRunDto {
  /** Any state, from any state; PENDING makes the run claimable again, a terminal state locks it. */
  @OptionalField()
  @IsText()
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  state?: string;

  /** Replaces the outputs as a whole. */
  @OptionalField()
  @JsonObject()
  outputs?: JsonObjectValue;

  /** Higher is scheduled first. */
  @OptionalField()
  @IsJsonInteger(PRIORITY)
  priority?: number;
}
