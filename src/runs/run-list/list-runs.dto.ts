import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryBoolean, QueryInteger, QueryString } from '../../http/query-decorators.js';
import { OpRunDto } from '../dto/op-run.dto.js';
import { RUN_STATES } from '../run-machine/run-state.js';

/** Runs of a page unless asked otherwise. */
export const DEFAULT_RUN_LIMIT = 10;

const UNIX_TIME = { type: 'integer', description: 'UNIX timestamp in seconds' } as const;

/** Query of GET /runs. All filters that are given must hold. */
export class ListRunsQueryDto {
  /** Runs of a page; 10 unless given. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 100 })
  limit?: number;

  /** Id of a run: the page holds runs older than it. */
  @IsOptional()
  @QueryString()
  starting_after?: string;

  /** Id of a run: the page holds runs newer than it. */
  @IsOptional()
  @QueryString()
  ending_before?: string;

  /** State of the run. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  state?: string;

  /** The same as `state`. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  status?: string;

  /** Id of the definition that the run was made from. */
  @IsOptional()
  @QueryString()
  op_definition?: string;

  /** Container image, to the letter. */
  @IsOptional()
  @QueryString()
  image?: string;

  /** Topic that the run's events are mirrored to. */
  @IsOptional()
  @QueryString()
  topic?: string;

  /** Created at this time or after it. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ ...UNIX_TIME, required: false })
  'created[gte]'?: string;

  /** Created at this time or before it. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ ...UNIX_TIME, required: false })
  'created[lte]'?: string;

  /** Created after this time. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ ...UNIX_TIME, required: false })
  'created[gt]'?: string;

  /** Created before this time. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ ...UNIX_TIME, required: false })
  'created[lt]'?: string;

  /** false leaves `events` empty, for callers who poll states. */
  @IsOptional()
  @QueryBoolean()
  include_events?: boolean;
}

/** A page of runs, newest first. */
@ApiSchema({ name: 'OpRunList' })
export class OpRunListDto {
  /** @example list */
  object: string;
  @ApiProperty({ type: [OpRunDto] })
  data: OpRunDto[];
  /** Whether there are further runs in the direction of the page. */
  has_more: boolean;
  /** @example /runs */
  url: string;
}
