import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { BulkItems } from '../../http/bulk-items.js';
import type { JsonValue } from '../../json/json-value.js';
import { CreateRunDto } from '../dto/create-run.dto.js';
import { OpRunDto } from '../dto/op-run.dto.js';
import { RefusedItemDto } from './refused-item.dto.js';

/** Runs to be created, each by itself. */
@ApiSchema({ name: 'OpRunBatchCreate' })
export class CreateRunsDto {
  /** 1 to 100 runs; each is read and refused by itself. */
  @BulkItems(() => CreateRunDto)
  runs: JsonValue[];
}

/** A run that was created. */
@ApiSchema({ name: 'CreatedRun' })
export class CreatedRunDto {
  @ApiProperty({ type: 'integer', enum: [201] })
  status: 201;
  @ApiProperty({ type: OpRunDto })
  run: OpRunDto;
  /** True when an earlier request with the same key created the run. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

/** A run that was created, where the request asks for `return=minimal`. */
@ApiSchema({ name: 'CreatedRunId' })
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

/** What became of each run. */
@ApiSchema({ name: 'OpRunBatchResult' })
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
