import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { MAX_BULK_ITEMS } from '../../http/bulk-items.js';
import { IsTextList } from '../../http/dto-decorators.js';
import { RefusedItemDto } from './refused-item.dto.js';

/** Runs that one thing is to be done to, each by itself. */
@ApiSchema({ name: 'OpRunIds' })
export class ChangeRunsDto {
  /** 1 to 100 ids of runs. */
  @IsTextList({ min: 1, max: 128 }, { min: 1, max: MAX_BULK_ITEMS })
  ids: string[];
}

/** A run that what was asked for was done to. */
@ApiSchema({ name: 'ChangedRun' })
export class ChangedRunDto {
  @ApiProperty({ type: 'integer', enum: [204] })
  status: 204;
  /** True when an earlier request with the same key did it. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

/** What became of one run. */
export type ChangeRunResult = ChangedRunDto | RefusedItemDto;

/** What became of each run. */
@ApiSchema({ name: 'OpRunIdsResult' })
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
