import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import {
  QueryBoolean,
  QueryInteger,
  QueryString,
  QueryTextList,
  QueryTime,
} from '../../common/http/validation/query-decorators.js';
import type { TextShape } from '../../common/http/validation/dto-decorators.js';
import { END_CAUSES, MAX_EXIT_CODE } from '../machine/event-types.js';
import { LABEL_FILTER, MAX_LABEL_FILTERS, RUN_NAME } from './execution-options.dto.js';
import { OpRunDto } from './op-run.dto.js';
import { RUN_STATES } from '../machine/run-state.js';

/** Runs of a page unless asked otherwise. */
export const DEFAULT_RUN_LIMIT = 10;

const UUID = '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';

/** Runs: all conditions that are given must hold. */
@ApiSchema({
  name: 'RunFilter',
  description: 'Runs, by the parameters of GET /runs: all that are given must hold.',
})
export class RunFilterDto {
  /** State of the run, in upper or lower case. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  @IsOptional()
  @QueryString()
  state?: string;

  /** The same as `state`. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  @IsOptional()
  @QueryString()
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

  /** Tags, separated by commas: runs whose selector has all of them. @example gpu,eu */
  @IsOptional()
  @QueryString()
  selector?: string;

  /** Concurrency key of the run. */
  @IsOptional()
  @QueryString()
  concurrency_key?: string;

  /**
   * `key=value` or `key`: runs with this label. May be given up to 5 times: different keys must all match, of several values of
   * one key any. @example ["team=vision"]
   */
  @IsOptional()
  @QueryTextList(LABEL_FILTER, { max: MAX_LABEL_FILTERS })
  label?: string[];

  /** Name of the run, to the letter. */
  @IsOptional()
  @QueryString(RUN_NAME)
  name?: string;

  /** Beginning of the run's name. */
  @IsOptional()
  @QueryString(RUN_NAME)
  name_prefix?: string;

  /** Why the current attempt failed: FAILED runs only. `concurrency`: runs that their concurrency key cancelled. */
  @ApiProperty({ enum: END_CAUSES, enumName: 'EndCause', required: false })
  @IsOptional()
  @QueryString({ oneOf: END_CAUSES })
  cause?: string;

  /** Exit code with which the container of the current attempt failed: FAILED runs only. */
  @IsOptional()
  @QueryInteger({ min: 0, max: MAX_EXIT_CODE })
  exit_code?: number;

  /** Id of the worker that executes the run, or on which it has ended: that of its current attempt. */
  @IsOptional()
  @QueryString()
  worker_id?: string;

  /** Id of the API key that created the run, as `created_by.key_id` shows it; `me`: the key of this request. @example me */
  @IsOptional()
  @QueryString({
    pattern: new RegExp(`^(?:me|${UUID})$`),
    form: 'the id of an API key (a UUID), or me',
  })
  created_by?: string;

  /** Id of a run: the runs that repeat it. @example 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b */
  @IsOptional()
  @QueryString({ pattern: new RegExp(`^${UUID}$`), form: 'the id of a run' })
  rerun_of?: string;

  /** Id of a schedule: the runs that it made. @example nightly-report */
  @IsOptional()
  @QueryString()
  schedule?: string;

  /** Id of a group: its members. @example 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5c */
  @IsOptional()
  @QueryString({ pattern: new RegExp(`^${UUID}$`), form: 'the id of a group' })
  group?: string;

  /** Created at this time or later: UNIX seconds, ISO 8601 with a zone, or a date, which is its first moment in UTC. With curl, add `-g`: it reads brackets as a pattern. */
  @QueryTime()
  'created[gte]'?: string;

  /** Created at this time or earlier. With curl, add `-g`. */
  @QueryTime()
  'created[lte]'?: string;

  /** Created after this time. With curl, add `-g`. */
  @QueryTime()
  'created[gt]'?: string;

  /** Created before this time. With curl, add `-g`. */
  @QueryTime()
  'created[lt]'?: string;

  /** Ended at this time or later; runs that have ended only. With curl, add `-g`. */
  @QueryTime()
  'ended[gte]'?: string;

  /** Ended at this time or earlier. With curl, add `-g`. */
  @QueryTime()
  'ended[lte]'?: string;

  /** Ended after this time. With curl, add `-g`. */
  @QueryTime()
  'ended[gt]'?: string;

  /** Ended before this time. With curl, add `-g`. */
  @QueryTime()
  'ended[lt]'?: string;
}

/** 4 and more characters that a run's id may begin with. */
const ID_PREFIX = {
  pattern:
    /^[0-9a-f]{4}(?:[0-9a-f]{0,4}|[0-9a-f]{4}-(?:[0-9a-f]{0,4}|[0-9a-f]{4}-(?:[0-9a-f]{0,4}|[0-9a-f]{4}-(?:[0-9a-f]{0,4}|[0-9a-f]{4}-[0-9a-f]{0,12}))))$/,
  form: "4 and more characters that a run's id begins with",
} as const satisfies TextShape;

/** Query of GET /runs. All filters that are given must hold. */
export class ListRunsQueryDto extends RunFilterDto {
  /** Largest number of runs in the page; fewer where they come to more than the setting SERVICE_MAX_ANSWER_BYTES. */
  @ApiProperty({ required: false, default: DEFAULT_RUN_LIMIT })
  @IsOptional()
  @QueryInteger({ min: 1, max: 100 })
  limit?: number;

  /** Beginning of the run's id, of 4 and more characters: the newest such runs. Without other filters and cursors. @example 01a2250b */
  @IsOptional()
  @QueryString(ID_PREFIX)
  id_prefix?: string;

  /** Id of a run, which retention may have removed: the page holds runs older than it. */
  @IsOptional()
  @QueryString()
  starting_after?: string;

  /** Id of a run, which retention may have removed: the page holds runs newer than it. */
  @IsOptional()
  @QueryString()
  ending_before?: string;

  /** false leaves `events` empty, for callers who poll states. */
  @IsOptional()
  @QueryBoolean()
  include_events?: boolean;
}

@ApiSchema({ name: 'OpRunList', description: 'A page of runs, newest first.' })
export class OpRunListDto {
  /** @example list */
  object: string;
  @ApiProperty({ type: [OpRunDto] })
  data: OpRunDto[];
  /** Whether there are further runs in the direction of the page, which may have fewer than `limit`. */
  has_more: boolean;
  /** @example /runs */
  url: string;
}
