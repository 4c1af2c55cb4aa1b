import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  Check,
  IsText,
  IsTextList,
  Nested,
  OptionalField,
  SHOWN_TEXT,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { IsTimeOrSpan } from '../../common/http/validation/time-field.js';
import type { PauseEntity } from '../../database/entities/queue.entity.js';
import { readTime } from '@longshore/common/json/read-time';
import { LABEL_FILTER } from '../dto/execution-options.dto.js';
import { CreatedByDto } from '../dto/op-run.dto.js';

/** The name of a pause. It begins with a letter or digit, so that no name is `.` or `..` in a path. */
export const PAUSE_NAME = {
  min: 1,
  max: 128,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  form: 'a name of letters, digits, ".", "_" and "-" that starts with a letter or digit',
} as const satisfies TextShape;

/** Pauses at a time. */
export const MAX_PAUSES = 100;

/** Values of each list, both inclusive. */
const VALUES = { min: 1, max: 100 } as const;

const ID: TextShape = { min: 1, max: 128, ...SHOWN_TEXT };

@ApiSchema({
  name: 'PauseConditionsInput',
  description: 'The runs of a pause: each list that is given must hold; of its values one is enough.',
})
export class PauseConditionsInputDto {
  /** true: all runs. Without lists. */
  @OptionalField()
  @Check('isTrue', (value) => value === true, 'must be true')
  @ApiProperty({ type: 'boolean', enum: [true] })
  all?: true;

  /** Ids of definitions that the run was made from, in any version. @example ["word-count"] */
  @OptionalField()
  @IsTextList(ID, VALUES)
  definition?: string[];

  /** `key=value` or `key`. @example ["team=vision"] */
  @OptionalField()
  @IsTextList(LABEL_FILTER, VALUES)
  label?: string[];

  /** Tags that the run demands of its worker. @example ["gpu"] */
  @OptionalField()
  @IsTextList(ID, VALUES)
  selector?: string[];

  /** Ids of schedules that the run comes from. @example ["nightly"] */
  @OptionalField()
  @IsTextList(ID, VALUES)
  schedule?: string[];

  /** Ids of the API keys that created the run. */
  @OptionalField()
  @IsTextList(
    {
      pattern: /^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/,
      form: 'the id of an API key (a UUID)',
    },
    VALUES,
  )
  created_by?: string[];
}

@ApiSchema({ name: 'PauseInput', description: 'A pause to create or replace.' })
export class PutPauseDto {
  /** Which runs. */
  @Nested(() => PauseConditionsInputDto)
  where: PauseConditionsInputDto;

  /** Why: `explain` and the dashboard show it. @example The data centre moves. */
  @IsText({ min: 1, max: 500, ...SHOWN_TEXT })
  reason: string;

  /**
   * When the pause ends by itself: UNIX seconds, an ISO 8601 date and time with a zone, or a span from the service's time on, such as
   * `15m` or `2h`; null: when it is removed. It must lie in the future.
   */
  @OptionalField()
  @IsTimeOrSpan((text) => (readTime(text, Date.now())?.getTime() ?? 0) > Date.now(), 'in the future')
  until?: string;
}

@ApiSchema({
  name: 'PauseConditions',
  description: 'The runs of a pause, with the conditions that were given.',
})
export class PauseConditionsDto {
  /** Present for a pause of all runs. */
  all?: boolean;
  /** Ids of definitions. */
  @ApiProperty({ type: [String] }) definition?: string[];
  /** `key=value` or `key`. */
  @ApiProperty({ type: [String] }) label?: string[];
  /** Tags of selectors. */
  @ApiProperty({ type: [String] }) selector?: string[];
  /** Ids of schedules. */
  @ApiProperty({ type: [String] }) schedule?: string[];
  /** Ids of API keys. */
  @ApiProperty({ type: [String] }) created_by?: string[];
}

@ApiSchema({ name: 'Pause', description: 'Runs that are PENDING and match it are not assigned.' })
export class PauseDto {
  /** @example move */
  name: string;
  @ApiProperty({ type: PauseConditionsDto })
  where: PauseConditionsDto;
  /** @example The data centre moves. */
  reason: string;
  /** When it ends by itself; null: when it is removed. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  until: string | null;
  /** The API key that set it last. */
  @ApiProperty({ type: CreatedByDto })
  updated_by: CreatedByDto;
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  /** When it was last set. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  updated_at: string;
}

export function toPauseDto(pause: Omit<PauseEntity, 'isApplied'>): PauseDto {
  return {
    name: pause.name,
    where: toConditionsDto(pause),
    reason: pause.reason,
    until: pause.untilAt?.toISOString() ?? null,
    updated_by: { key_id: pause.updatedBy, key_name: pause.updatedByName },
    created_at: pause.createdAt.toISOString(),
    updated_at: pause.updatedAt.toISOString(),
  };
}

function toConditionsDto({
  definitions,
  labels,
  selector,
  schedules,
  creators,
}: Omit<PauseEntity, 'isApplied'>): PauseConditionsDto {
  const lists = {
    ...(definitions && { definition: definitions }),
    ...(labels && { label: labels }),
    ...(selector && { selector }),
    ...(schedules && { schedule: schedules }),
    ...(creators && { created_by: creators }),
  };
  return Object.keys(lists).length === 0 ? { all: true } : lists;
}
