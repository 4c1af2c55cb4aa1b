import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { BulkItems } from '../../common/http/validation/bulk-items.js';
import { IsJsonInteger, IsText, OptionalField } from '../../common/http/validation/dto-decorators.js';
import type { JsonValue } from '@longshore/common/json/json-value';
import { AddEventDto } from '../http/dto/event.dto.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';
import { RefusedItemDto } from './refused-item.dto.js';

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
export class RecordedEventDto {
  @ApiProperty({ type: 'integer', enum: [204] })
  status: 204;
  /** True when an earlier request with the same key recorded the event. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  replayed?: true;
}

/** What became of one event. */
export type ReportEventResult = RecordedEventDto | RefusedItemDto;

@ApiSchema({ name: 'EventBatchResult', description: 'The result of each event.' })
@ApiExtraModels(RecordedEventDto, RefusedItemDto)
export class ReportEventsResultDto {
  /** One answer an event, in the order of the request. */
  @ApiProperty({
    type: 'array',
    items: {
      oneOf: [RecordedEventDto, RefusedItemDto].map((type) => ({ $ref: getSchemaPath(type) })),
    },
  })
  results: ReportEventResult[];
}
