import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import type { JsonValue } from '@longshore/common/json/json-value';
import { ErrorDto } from '../../common/http/errors/error.dto.js';
import type { ErrorBody } from '../../common/http/errors/error-response.js';
import { BulkItems, MAX_BULK_ITEMS } from '../../common/http/validation/bulk-items.js';
import {
  IsJsonInteger,
  IsText,
  IsTextList,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { AddEventDto } from '../dto/event.dto.js';
import { OpRunDto, RunPreviewDto } from '../dto/op-run.dto.js';
import { CreateRunDto } from '../dto/run-requests.dto.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';

@ApiSchema({ name: 'RefusedItem', description: 'The item was refused.' })
export class RefusedItemDto {
  /** The status that the item would be refused with as a request of its own; after 429, 500 or 503 it may be sent again. */
  @ApiProperty({ type: 'integer', enum: [400, 403, 404, 409, 429, 500, 503] })
  status: number;
  @ApiProperty({ type: ErrorDto })
  error: ErrorBody;
}

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
  run: OpRunDto;
  /** True when an earlier request with the same key created the run. */
  @ApiProperty({ type: 'boolean', enum: [true] })
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
  @ApiProperty({ format: 'uuid' })
  id: string;
  /** True when an earlier request with the same key created the run. */
  @ApiProperty({ type: 'boolean', enum: [true] })
  replayed?: true;
}

@ApiSchema({ name: 'PreviewedRun', description: 'With `dry_run=true`: a run that would be created.' })
export class PreviewedRunDto {
  @ApiProperty({ type: 'integer', enum: [200] })
  status: 200;
  run: RunPreviewDto;
}

@ApiSchema({ name: 'OpRunBatchResult', description: 'The result of each run.' })
@ApiExtraModels(CreatedRunDto, CreatedRunIdDto, PreviewedRunDto, RefusedItemDto)
export class CreateRunsResultDto {
  /** One answer a run, in the order of the request. */
  @ApiProperty(listOf(CreatedRunDto, CreatedRunIdDto, PreviewedRunDto, RefusedItemDto))
  results: (CreatedRunDto | CreatedRunIdDto | PreviewedRunDto | RefusedItemDto)[];
}

@ApiSchema({ name: 'OpRunIds', description: 'Ids of runs; each run is changed independently.' })
export class ChangeRunsDto {
  /** 1 to 100 ids of runs. */
  @IsTextList({ min: 1, max: 128 }, { min: 1, max: MAX_BULK_ITEMS })
  ids: string[];
}

@ApiSchema({ name: 'CancelledRunIds', description: 'Ids of runs to cancel; each independently.' })
export class CancelRunsDto extends ChangeRunsDto {
  /** Why; the same for all of them. */
  @OptionalField()
  @IsText({ min: 1, max: 500, ...SHOWN_TEXT })
  reason?: string;
}

@ApiSchema({ name: 'ChangedRun', description: 'The run was changed.' })
export class ChangedRunDto {
  @ApiProperty({ type: 'integer', enum: [204] })
  status: 204;
  /** True when an earlier request with the same key did it. */
  @ApiProperty({ type: 'boolean', enum: [true] })
  replayed?: true;
}

@ApiSchema({ name: 'OpRunIdsResult', description: 'The result of each run.' })
@ApiExtraModels(ChangedRunDto, RefusedItemDto)
export class ChangeRunsResultDto {
  /** One answer an id, in the order of the request. */
  @ApiProperty(listOf(ChangedRunDto, RefusedItemDto))
  results: (ChangedRunDto | RefusedItemDto)[];
}

@ApiSchema({ name: 'ReportedEvent', description: 'An event of one run.' })
export class ReportedEventDto extends AddEventDto {
  /** The run that it is about. */
  @IsText({ min: 1, max: 128 })
  run_id: string;

  /** The attempt that is reported on; 409 when it is not the current one. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  attempt?: number;
}

@ApiSchema({ name: 'EventBatch', description: 'Events to add; each succeeds or fails independently.' })
export class ReportEventsDto {
  /** 1 to 100 events; those of one run are recorded in the order in which they stand here. */
  @BulkItems(() => ReportedEventDto)
  events: JsonValue[];
}

@ApiSchema({ name: 'RecordedEvent', description: 'The event was added.' })
export class RecordedEventDto extends ChangedRunDto {}

@ApiSchema({ name: 'EventBatchResult', description: 'The result of each event.' })
@ApiExtraModels(RecordedEventDto, RefusedItemDto)
export class ReportEventsResultDto {
  /** One answer an event, in the order of the request. */
  @ApiProperty(listOf(RecordedEventDto, RefusedItemDto))
  results: (RecordedEventDto | RefusedItemDto)[];
}

function listOf(...types: (new () => object)[]): {
  readonly type: 'array';
  readonly items: { readonly oneOf: { readonly $ref: string }[] };
} {
  return { type: 'array', items: { oneOf: types.map((type) => ({ $ref: getSchemaPath(type) })) } };
}
