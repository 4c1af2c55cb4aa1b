import { ABLE_WORKERS, CreatedByDto, toCreatedByDto } from '../../runs/dto/op-run.dto.js';
import type { Type } from '@nestjs/common';
import { ApiProperty, ApiSchema, getSchemaPath, ApiExtraModels } from '@nestjs/swagger';
import type { DefinitionEntity } from '../../database/entities/definition.entity.js';
import { QueryBoolean, QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { ExecutionOptionsDto, toExecutionOptionsDto } from '../../runs/dto/execution-options.dto.js';
import { ConstraintsDto, toConstraintsDto } from '../../runs/dto/constraints.dto.js';
import {
  EventDeliveryDto,
  TimeoutsDto,
  toEventDeliveryDto,
  toTimeoutsDto,
} from '../../runs/dto/timeouts-and-delivery.dto.js';
import { RetryPolicyDto, toRetryPolicyDto } from '../../runs/dto/retry-policy.dto.js';
import type { Argument } from '../templates/template-text.js';
import { ApiArgumentList } from './argument.dto.js';
import { AppliedDto } from './create-definition.dto.js';
import { InputSpecDto, OutputSpecDto } from './specs.dto.js';

/** Default size of a page, except in the list of all versions. */
export const DEFAULT_LIMIT = 100;

/** The options of a run, with another form of `args`. */
const OptionsDto: Type<Omit<ExecutionOptionsDto, 'args'>> = ExecutionOptionsDto;

@ApiSchema({
  name: 'OpDefinition',
  description:
    'A version of a definition: a template for runs. Texts with references are as they were stored.',
})
@ApiExtraModels(InputSpecDto, OutputSpecDto)
export class DefinitionDto extends OptionsDto {
  /** Name of the definition. */
  id: string;
  version: string;
  image: string;
  /** What it is for; null: not given. */
  @ApiProperty({ type: 'string', nullable: true })
  description: string | null;
  @ApiProperty({ type: 'object', additionalProperties: { $ref: getSchemaPath(InputSpecDto) } })
  input_specs: Record<string, InputSpecDto>;
  @ApiProperty({ type: 'object', additionalProperties: { $ref: getSchemaPath(OutputSpecDto) } })
  output_specs: Record<string, OutputSpecDto>;
  /** Replaces the arguments of the image; null: it does not. */
  @ApiArgumentList({ nullable: true })
  args: readonly Argument[] | null;
  constraints: ConstraintsDto;
  retry_policy: RetryPolicyDto;
  /** Timeouts of its runs; absent when there are none. */
  timeouts?: TimeoutsDto;
  @ApiProperty({ type: EventDeliveryDto, nullable: true })
  event_delivery: EventDeliveryDto | null;
  /** null: it was not stored by `longshore apply`. */
  @ApiProperty({ type: AppliedDto, nullable: true })
  applied: AppliedDto | null;
  /** API key that created the version; null: the service itself. */
  @ApiProperty({ type: CreatedByDto, nullable: true })
  created_by: CreatedByDto | null;
  /** API key that stored it last; null: the service itself. */
  @ApiProperty({ type: CreatedByDto, nullable: true })
  updated_by: CreatedByDto | null;
  @ApiProperty({ type: 'string', format: 'date-time' })
  createdAt: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  updatedAt: string;
}

@ApiSchema({ name: 'OpDefinitionPreview', description: 'A version of a definition that would be stored.' })
export class DefinitionPreviewDto extends DefinitionDto {
  @ApiProperty(ABLE_WORKERS)
  able_workers: number;
}

@ApiSchema({ name: 'LatestOpDefinition', description: 'The newest version of a definition.' })
export class LatestDefinitionDto extends DefinitionDto {
  /** How many versions there are. */
  @ApiProperty({ type: 'integer', minimum: 1 })
  versions: number;
}

export class DefinitionVersionQueryDto {
  /** The latest, by time of creation, unless given. */
  @QueryString({ max: 128 })
  version?: string;
}

export class CreateDefinitionRunQueryDto extends DefinitionVersionQueryDto {
  /** `true` creates nothing: the answer, 200, is the run that would be created. No idempotency key is used. */
  @QueryBoolean()
  dry_run?: boolean;
}

export class DeleteDefinitionQueryDto {
  /** The version to delete. Either this or `all` is required. */
  @QueryString({ max: 128 })
  version?: string;

  /** `true` deletes all versions. Not together with `version`. */
  @QueryBoolean()
  all?: boolean;
}

export class ListDefinitionsQueryDto {
  /** Versions of a page; all of them unless given. A page without the header `Link` is the last. */
  @QueryInteger({ min: 1, max: 1000 })
  limit?: number;

  /** Id and version of the last entry of the page before, as `id/version`; the page continues after it. */
  @QueryString({ max: 257 })
  after?: string;
}

class PageQueryDto {
  /** Entries of a page; 100 unless given. A page without the header `Link` is the last. */
  @QueryInteger({ min: 1, max: 1000, default: DEFAULT_LIMIT })
  limit?: number;
}

export class ListVersionsQueryDto extends PageQueryDto {
  /** Version of the last entry of the page before; the page continues with older ones. */
  @QueryString({ max: 128 })
  after?: string;
}

export class ListLatestQueryDto extends PageQueryDto {
  /** Id of the last entry of the page before; the page continues after it. */
  @QueryString({ max: 128 })
  after?: string;

  /** Only definitions with this text in their id, ignoring case. @example count */
  @QueryString({ max: 128 })
  search?: string;
}

export function toDefinitionDto(row: DefinitionEntity): DefinitionDto {
  const timeouts = toTimeoutsDto(row);
  const options = toExecutionOptionsDto(row);
  return {
    id: row.id,
    version: row.version,
    image: row.image,
    description: row.description,
    input_specs: row.inputSpecs,
    output_specs: row.outputSpecs,
    constraints: toConstraintsDto(row),
    retry_policy: toRetryPolicyDto(row),
    ...(timeouts && { timeouts }),
    event_delivery: toEventDeliveryDto(row),
    ...options,
    args: options.args ?? null,
    applied: row.applied,
    created_by: toCreatedByDto(row.createdBy, row.createdByName),
    updated_by: toCreatedByDto(row.updatedBy, row.updatedByName),
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}
