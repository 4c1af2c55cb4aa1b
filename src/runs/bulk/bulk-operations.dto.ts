import { ApiExtraModels, ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsObject } from 'class-validator';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import {
  IsJsonInteger,
  IsText,
  OptionalField,
  SHOWN_TEXT,
  schemaText,
} from '../../common/http/validation/dto-decorators.js';
import { PassByReference } from '../../common/http/validation/free-form-json.js';
import {
  BULK_ACTIONS,
  BULK_STATES,
  type BulkAction,
  type BulkState,
} from '../../database/entities/bulk-operation.entity.js';
import { LABELS } from '../dto/execution-options.dto.js';
import { RunFilterDto } from '../dto/list-runs.dto.js';
import { OpRunDto } from '../dto/op-run.dto.js';
import { PRIORITY } from '../dto/timeouts-and-delivery.dto.js';
import type { BulkOperation } from './bulk-operations.repository.js';

@ApiSchema({ name: 'BulkOperationCreate', description: 'A change of all runs that a filter matches.' })
@ApiExtraModels(RunFilterDto)
export class CreateBulkOperationDto {
  /** `priority` needs the scope `admin`. `retry` is for FAILED and CANCELLED runs, unless the filter asks for another state. */
  @IsIn(BULK_ACTIONS, { message: `$property must be one of ${BULK_ACTIONS.join(', ')}` })
  @ApiProperty({ enum: BULK_ACTIONS, enumName: 'BulkAction' })
  action: BulkAction;

  /**
   * The runs, by the parameters of `GET /runs` except limit, cursors and include_events. One without a condition matches all runs
   * and needs `all`.
   */
  @IsObject()
  @PassByReference()
  @ApiProperty({ type: RunFilterDto })
  filter: JsonObject;

  /** Must be true when the filter has no condition. */
  @OptionalField()
  @IsBoolean({ message: '$property must be true or false' })
  all?: boolean;

  /** Of `priority` the new priority; of `labels` the labels to set, by key: null removes one. The other actions have none. */
  @OptionalField()
  @PassByReference()
  @ApiProperty({
    required: false,
    oneOf: [
      { type: 'integer', minimum: PRIORITY.min, maximum: PRIORITY.max },
      {
        type: 'object',
        minProperties: 1,
        maxProperties: 2 * LABELS.max,
        additionalProperties: { type: ['string', 'null'], ...schemaText(LABELS.values) },
      },
    ],
  })
  value?: JsonValue;

  /** Why: in the audit log, and of `cancel` in `execution_summary.cancel_reason` of the runs. */
  @OptionalField()
  @IsText({ min: 1, max: 500, ...SHOWN_TEXT })
  reason?: string;

  /** The number of runs that the filter must match: else 409, and nothing is changed. */
  @OptionalField()
  @IsJsonInteger({ min: 0 })
  expect?: number;

  /** true: nothing is changed, the answer is what the filter matches now. */
  @OptionalField()
  @IsBoolean({ message: '$property must be true or false' })
  dry_run?: boolean;
}

@ApiSchema({ name: 'BulkOperationStarted', description: 'A bulk operation that was started.' })
export class StartedBulkOperationDto {
  /** Id of the operation. */
  @ApiProperty({ format: 'uuid' })
  id: string;
  /** Number of runs that the filter matched. */
  @ApiProperty({ type: 'integer' })
  matched: number;
}

@ApiSchema({ name: 'BulkOperationPreview', description: 'What a filter matches.' })
export class BulkPreviewDto {
  /** Number of runs that the filter matches. */
  @ApiProperty({ type: 'integer' })
  matched: number;
  /** Of them, how many are in each state. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'integer' } })
  by_state: Record<string, number>;
  /** The newest 10 of them, without their events. */
  @ApiProperty({ type: [OpRunDto] })
  runs: OpRunDto[];
}

@ApiSchema({ name: 'BulkRefusal', description: 'A run that could not be changed.' })
export class BulkRefusalDto {
  /** Id of the run. */
  @ApiProperty({ format: 'uuid' })
  id: string;
  /** Why. */
  detail: string;
}

@ApiSchema({
  name: 'BulkOperation',
  description: 'A change of all runs that a filter matched, and its progress.',
})
export class BulkOperationDto {
  @ApiProperty({ format: 'uuid' })
  id: string;
  @ApiProperty({ enum: BULK_ACTIONS, enumName: 'BulkAction' })
  action: BulkAction;
  /** `done` and `stopped` are final. */
  @ApiProperty({ enum: BULK_STATES, enumName: 'BulkOperationState' })
  state: BulkState;
  /** Number of runs that the filter matched when the operation was created. */
  @ApiProperty({ type: 'integer' })
  matched: number;
  /** How many were changed, or were already so. */
  @ApiProperty({ type: 'integer' })
  done: number;
  /** The first 100 that could not be changed. */
  @ApiProperty({ type: [BulkRefusalDto] })
  refused: BulkRefusalDto[];
  /** How many were neither changed nor refused: after `stopped`, they stay as they are. */
  @ApiProperty({ type: 'integer' })
  remaining: number;
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  /** null: it is running. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  ended_at: string | null;
}

/** An operation as responses have it. */
export function toBulkOperationDto(operation: BulkOperation): BulkOperationDto {
  const { id, action, state, matched, processed, refused, refusals, createdAt, endedAt } = operation;
  return {
    id,
    action,
    state,
    matched,
    done: processed - refused,
    refused: refusals.map((refusal) => ({ id: refusal.id, detail: refusal.detail })),
    remaining: matched - processed,
    created_at: createdAt.toISOString(),
    ended_at: endedAt?.toISOString() ?? null,
  };
}
