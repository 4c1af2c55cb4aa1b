import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { MAX_BULK_ITEMS } from '../../common/http/validation/bulk-items.js';
import { IsTextList } from '../../common/http/validation/dto-decorators.js';
import { RefusedItemDto } from './refused-item.dto.js';

@ApiSchema({ name: 'OpRunIds', description: 'Ids of runs; each run is changed independently.' })
export class ChangeRunsDto {
  /** 1 to 100 ids of runs. */
  @IsTextList({ min: 1, max: 128 }, { min: 1, max: MAX_BULK_ITEMS })
  ids: string[];
}

@ApiSchema({ name: 'ChangedRun', description: 'The run was changed.' })
export class ChangedRunDto {
  @ApiProperty({ type: 'integer', enum: [204] })
  status: 204;
  /** True when an earlier request with the same key did it. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

/** What became of one run. */
export type ChangeRunResult = ChangedRunDto | RefusedItemDto;

@ApiSchema({ name: 'OpRunIdsResult', description: 'The result of each run.' })
@ApiExtraModels(ChangedRunDto, RefusedItemDto)
export class ChangeRunsResultDto {
  /** One answer an id, in the order of the request. */
  @ApiProperty({
    type: 'array',
    items: {
      oneOf: [ChangedRunDto, RefusedItemDto].map((type) => ({ $ref: getSchemaPath(type) })),
    },
  })
  results: ChangeRunResult[];
}
