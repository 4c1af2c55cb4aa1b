import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsIn, IsOptional } from 'class-validator';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { readInstant } from '@longshore/common/json/read-timestamp';
import {
  Check,
  IsJsonInteger,
  IsText,
  IsTextList,
  JsonObject,
  Nested,
  OptionalField,
  SHOWN_LINES,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { CATCH_UPS, OVERLAPS, type CatchUp, type Overlap } from '../../database/entities/schedule.entity.js';
import { AppliedDto } from '../../definitions/dto/create-definition.dto.js';
import { LabelsField } from '../../runs/dto/execution-options.dto.js';
import type { LabelChanges } from '../../runs/machine/run.js';

/** Seconds of the longest interval, window and delay that are taken: a year, and an hour. */
const YEAR_S = 366 * 24 * 3600;
const HOUR_S = 3600;

const EXPRESSION = { min: 1, max: 256, ...SHOWN_TEXT } as const;
const NOTE = { min: 1, max: 500, ...SHOWN_TEXT } as const;

/** A moment, ISO 8601 with a zone. */
function TimeField(): PropertyDecorator {
  return applyDecorators(
    Check(
      'isTime',
      (value) => typeof value === 'string' && readInstant(value) !== null,
      'must be a time: ISO 8601 with a zone',
    ),
    ApiProperty({ type: 'string', format: 'date-time' }),
  );
}

@ApiSchema({
  name: 'CatchUp',
  description: 'Which of the times are made up for that passed while the service was down.',
})
export class CatchUpDto {
  /** `latest`: the newest of them; `none`; `all`: the newest 100. The others are listed as missed. */
  @OptionalField()
  @IsIn(CATCH_UPS, { message: `$property must be one of ${CATCH_UPS.join(', ')}` })
  @ApiProperty({
    enum: CATCH_UPS,
    enumName: 'CatchUpPolicy',
    enumSchema: { description: 'Which of the times are made up for that passed while the service was down.' },
    required: false,
    default: 'latest',
  })
  policy?: CatchUp;

  /** Seconds: an older time is never made up for. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: YEAR_S })
  @ApiProperty({ required: false, default: 86_400 })
  window_s?: number;
}

/** When: exactly one of `cron` and `every_s`. */
export class TimesDto {
  /**
   * Expressions of five fields, with names, lists, ranges and steps, or `@daily` and the like. A time that several have is one time.
   * @example ["0 3 * * *"]
   */
  @OptionalField()
  @IsTextList(EXPRESSION, { min: 1, max: 10 })
  cron?: string[];

  /** Seconds between two times, which are counted from 1970-01-01T00:00:00Z. */
  @OptionalField()
  @IsJsonInteger({ min: 10, max: YEAR_S })
  every_s?: number;

  /** Seconds by which the times of `every_s` are later. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: YEAR_S })
  offset_s?: number;

  /** Time zone of `cron`, by its name in the IANA database. @example Europe/Berlin */
  @OptionalField()
  @IsText({ min: 1, max: 64, ...SHOWN_TEXT })
  @ApiProperty({ required: false, default: 'UTC' })
  timezone?: string;
}

@ApiSchema({ name: 'SchedulePut', description: 'A schedule.' })
export class PutScheduleDto extends TimesDto {
  /** What it is for. */
  @OptionalField()
  @IsText({ max: 4096, ...SHOWN_LINES })
  description?: string;

  /** Labels of its runs, over those of the definition and under those of `run` or `group`. */
  @LabelsField()
  labels?: LabelChanges;

  /**
   * This or `group`: the body of POST /runs, or with `definition`, and `version` unless the latest at each time is meant, that of a run of a definition; without
   * `start_at`. An entry of `depends_on` may be `{"schedule": ID, "same": "time" or "date", "when"}`. In `command`, `args`, `env`, the `sub_path` of `mounts` and the texts of `inputs`, `${schedule.time}`, `${schedule.date}`,
   * `${schedule.previous}`, `${schedule.next}`, `${run.id}` and `${run.name}` are replaced for each run, and but for `inputs` `${inputs.NAME}`, too.
   * @example {"image": "longshore/word-count", "inputs": {"text": "${schedule.date}"}}
   */
  @OptionalField()
  @JsonObject()
  run?: JsonObjectValue;

  /**
   * The body of POST /groups, whose members are runs of the schedule; what is said of its run then holds for the group. Texts of members may
   * also refer to what those of `run` may, and `depends_on` of members or of the array may name schedules.
   * @example {"array": {"size": 10, "run": {"image": "longshore/word-count", "args": ["${schedule.date}", "${array.index}"]}}}
   */
  @OptionalField()
  @JsonObject()
  group?: JsonObjectValue;

  /** No time before it. */
  @OptionalField()
  @TimeField()
  starts_at?: string;

  /** No time after it. */
  @OptionalField()
  @TimeField()
  ends_at?: string;

  /** The runs are made later by a fixed number of seconds, from 0 to this, that follows from the id. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: HOUR_S })
  @ApiProperty({ required: false, default: 0 })
  jitter_s?: number;

  /**
   * When a run of the schedule has not ended at the next time: `skip` makes none; `allow` makes one; `queue_one` makes one that waits for the
   * end, unless one waits already; `cancel_previous` makes one and cancels the others.
   */
  @OptionalField()
  @IsIn(OVERLAPS, { message: `$property must be one of ${OVERLAPS.join(', ')}` })
  @ApiProperty({
    enum: OVERLAPS,
    enumName: 'ScheduleOverlap',
    enumSchema: { description: 'What happens at a time while earlier runs of the schedule have not ended.' },
    required: false,
    default: 'skip',
  })
  overlap?: Overlap;

  @OptionalField()
  @Nested(() => CatchUpDto)
  catch_up?: CatchUpDto;

  /** Runs in a row that end FAILED after which the schedule is paused; none: never. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: 1000 })
  pause_after_failures?: number;

  /** Stays unless given. */
  @OptionalField()
  @Nested(() => AppliedDto)
  applied?: AppliedDto;

  /** Whether it is paused; as it is unless given. */
  @OptionalField()
  @Check('isBoolean', (value) => typeof value === 'boolean', 'must be true or false')
  @ApiProperty({ type: 'boolean', required: false })
  paused?: boolean;
}

@ApiSchema({ name: 'SchedulePreviewRequest', description: 'Times to be shown.' })
export class PreviewScheduleDto extends TimesDto {
  /** The first time is after it; now unless given. */
  @OptionalField()
  @TimeField()
  from?: string;

  @OptionalField()
  @IsJsonInteger({ min: 1, max: 100 })
  @ApiProperty({ required: false, default: 10 })
  count?: number;
}

@ApiSchema({ name: 'SchedulePause', description: 'What is said about a pause.' })
export class PauseScheduleDto {
  /** Why. @example The warehouse is being moved. */
  @OptionalField()
  @IsText(NOTE)
  note?: string;
}

@ApiSchema({ name: 'ScheduleBackfill', description: 'A range of times of the past.' })
export class BackfillScheduleDto {
  /** The first time that is meant. */
  @TimeField()
  from: string;

  /** The last time that is meant, not in the future. */
  @TimeField()
  until: string;
}

export class ListSchedulesQueryDto {
  @IsOptional()
  @QueryInteger({ min: 1, max: 100 })
  @ApiProperty({ required: false, default: 50 })
  limit?: number;

  /** Id of the last schedule of the page before. */
  @IsOptional()
  @QueryString()
  after?: string;

  /** Text that the id has, in upper or lower case. */
  @IsOptional()
  @QueryString()
  search?: string;
}

export class ListFiresQueryDto {
  @IsOptional()
  @QueryInteger({ min: 1, max: 1000 })
  @ApiProperty({ required: false, default: 100 })
  limit?: number;

  /** `id` of the last entry of the page before. */
  @IsOptional()
  @QueryString({ pattern: /^[1-9][0-9]{0,17}$/, form: 'the id of an entry' })
  after?: string;
}
