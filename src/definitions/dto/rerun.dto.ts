import { ApiSchema } from '@nestjs/swagger';
import { IsText, JsonObject, OptionalField } from '../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { NAME } from './create-definition.dto.js';

@ApiSchema({ name: 'RerunRequest', description: 'How a run is repeated.' })
export class RerunDto {
  /**
   * Version of the definition: `same`, that of the run; `latest`; or the name of a version. Only for a run of a definition.
   * @example latest
   */
  @OptionalField()
  @IsText(NAME)
  definition_version?: string;

  /**
   * Fields of the request that created the run, each replaced as a whole; null: as if the request had not given it. Labels are
   * merged by key. A run of a definition takes the fields of POST /definitions/{name}/runs.
   * @example {"constraints": {"ram_mb": 2048}}
   */
  @OptionalField()
  @JsonObject()
  changes?: JsonObjectValue;
}
