import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { BulkItems } from '../../common/http/validation/bulk-items.js';
import type { JsonValue } from '@longshore/common/json/json-value';
import { CreateRunDto } from '../http/dto/run-requests.dto.js';
import { OpRunDto } from '../http/dto/op-run.dto.js';
import { RefusedItemDto } from './refused-item.dto.js';

@ApiSchema({ name: 'OpRunBatchCreate', description: 'Runs to create; each succeeds or fails independently.' })
export class CreateRunsDto {
  /** 1 to 100 runs; each is read and refused by itself. */
  @BulkItems(() => CreateRunDto)
  runs: JsonValue[];
}

@ApiSchema({ name: 'CreatedRun', description: 'A created run.' })
export class CreatedRunDto {
  @ApiProperty({ type: 'integer', enum: [201] })
  status: 201;
  @ApiProperty({ type: OpRunDto })
  run: OpRunDto;
  /** True when an earlier request with the same key created the run. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

@ApiSchema({
  name: 'CreatedRunId',
  description: 'The id of a created run, for a request with `Prefer: return=minimal`.',
})
export class CreatedRunIdDto {
  @ApiProperty({ type: 'integer', enum: [201] })
  status: 201;
  /** Id of the run. */
  @ApiProperty({ type: 'string', format: 'uuid' })
  id: string;
  /** True when an earlier request with the same key created the run. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

/** What became of one run. */
export type CreateRunResult = CreatedRunDto | CreatedRunIdDto | RefusedItemDto;

@ApiSchema({ name: 'OpRunBatchResult', description: 'The result of each run.' })
@ApiExtraModels(CreatedRunDto, CreatedRunIdDto, RefusedItemDto)
export class CreateRunsResultDto {
  /** One answer a run, in the order of the request. */
  @ApiProperty({
    type: 'array',
    items: {
      oneOf: [CreatedRunDto, CreatedRunIdDto, RefusedItemDto].map((type) => ({ $ref: getSchemaPath(type) })),
    },
  })
  results: CreateRunResult[];
}
