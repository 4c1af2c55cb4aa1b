import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsIn, IsOptional } from 'class-validator';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import {
  Check,
  IsJsonInteger,
  IsText,
  JsonObject,
  Nested,
  NestedList,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { PassByReference } from '../../common/http/validation/free-form-json.js';
import { QueryInteger, QueryString, QueryTextList } from '../../common/http/validation/query-decorators.js';
import {
  GROUP_STATES,
  ON_FAILURES,
  type GroupState,
  type OnFailure,
} from '../../database/entities/group.entity.js';
import { DependencyDto, MAX_DEPENDENCIES } from '../../runs/dto/dependency.dto.js';
import {
  LABEL_FILTER,
  LabelsField,
  MAX_LABEL_FILTERS,
  RUN_NAME,
} from '../../runs/dto/execution-options.dto.js';
import type { LabelChanges } from '../../runs/machine/run.js';

/** Members of a group of runs, and of an array, at most. */
export const MAX_RUNS = 1_000;
export const MAX_ARRAY = 10_000;

/** A field that holds a list of free objects. */
function ObjectList(max: number): PropertyDecorator {
  return applyDecorators(
    PassByReference(),
    Check(
      'isObjectList',
      (value) =>
        Array.isArray(value) &&
        value.length >= 1 &&
        value.length <= max &&
        value.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one)),
      `must be a list of 1 to ${max} objects`,
    ),
    ApiProperty({
      type: 'array',
      items: { type: 'object', additionalProperties: true },
      minItems: 1,
      maxItems: max,
    }),
  );
}

const DEPENDENCY_TYPES = ['all', 'same_index'] as const;

@ApiSchema({
  name: 'ArrayDependency',
  description: 'A run or a group that must end before members of an array are made.',
})
export class ArrayDependencyDto extends DependencyDto {
  /** `same_index`: each member waits for the member of the same index of `group`, an array of the same size. */
  @OptionalField()
  @IsIn(DEPENDENCY_TYPES, { message: `$property must be one of ${DEPENDENCY_TYPES.join(', ')}` })
  @ApiProperty({ enum: DEPENDENCY_TYPES, required: false, default: 'all' })
  type?: (typeof DEPENDENCY_TYPES)[number];
}

@ApiSchema({
  name: 'ArrayCreate',
  description: 'Runs that differ in their index: exactly one of `size` and `inputs`.',
})
export class ArrayDto {
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_ARRAY })
  size?: number;

  /** Inputs of each member, over those of `run`. @example [{"rate": 0.1}, {"rate": 0.01}] */
  @OptionalField()
  @ObjectList(MAX_ARRAY)
  inputs?: JsonObjectValue[];

  /**
   * The body of POST /runs, or with `definition`, and `version` unless the latest is meant, that of a run of a definition; without `start_at`,
   * `depends_on` and `concurrency`. Its texts may refer to `${array.index}`, `${array.size}` and `${group.id}`.
   * @example {"image": "longshore/word-count", "inputs": {"text": "${array.index}"}}
   */
  @JsonObject()
  run: JsonObjectValue;
}

@ApiSchema({
  name: 'GroupCreate',
  description: 'Runs that are handled as one: exactly one of `runs` and `array`.',
})
export class CreateGroupDto {
  /** For people; need not be unique. @example nightly training */
  @OptionalField()
  @IsText(RUN_NAME)
  name?: string;

  /** Labels of the members, over those of the definition and under their own. */
  @LabelsField()
  labels?: LabelChanges;

  /** Inputs of each member, under its own; of a definition, those that it declares. */
  @OptionalField()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** Members that are in execution at a time, at most. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_ARRAY })
  max_parallel?: number;

  /** Of an array: as soon as so many members have FAILED, the others are cancelled. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_ARRAY })
  max_failed?: number;

  /** What the failure of a member does: `cancel_dependents` those that need it, `cancel_group` all others. */
  @OptionalField()
  @IsIn(ON_FAILURES, { message: `$property must be one of ${ON_FAILURES.join(', ')}` })
  @ApiProperty({
    enum: ON_FAILURES,
    enumName: 'OnFailure',
    enumSchema: { description: 'What the failure of a member of a group does to the others.' },
    required: false,
    default: 'cancel_dependents',
  })
  on_failure?: OnFailure;

  /**
   * Each with a `ref`, its name in the group, and the body of POST /runs, or with `definition` of a run of a definition. An entry of `depends_on` may
   * be `{"ref": REF, "when"}`, and one of `$from` may have `ref`.
   * @example [{"ref": "train", "image": "longshore/word-count"}, {"ref": "report", "image": "longshore/word-count", "depends_on": [{"ref": "train"}]}]
   */
  @OptionalField()
  @ObjectList(MAX_RUNS)
  runs?: JsonObjectValue[];

  @OptionalField()
  @Nested(() => ArrayDto)
  array?: ArrayDto;

  /** What an array waits for. */
  @OptionalField()
  @NestedList(() => ArrayDependencyDto, { max: MAX_DEPENDENCIES })
  @ApiProperty({ required: false })
  depends_on?: ArrayDependencyDto[];
}

const RETRIED = ['failed', 'all'] as const;

@ApiSchema({ name: 'GroupRetry', description: 'Which members of a group are tried again.' })
export class RetryGroupDto {
  /** `failed`: those that FAILED and what they had cancelled; `all`: every member. */
  @OptionalField()
  @IsIn(RETRIED, { message: `$property must be one of ${RETRIED.join(', ')}` })
  @ApiProperty({ enum: RETRIED, required: false, default: 'failed' })
  only?: (typeof RETRIED)[number];
}

@ApiSchema({ name: 'GroupCancel', description: 'What is said about the cancellation of a group.' })
export class CancelGroupDto {
  /** Why; kept with the group and its runs. @example The input was wrong. */
  @OptionalField()
  @IsText({ min: 1, max: 500, ...SHOWN_TEXT })
  reason?: string;
}

export class ListGroupsQueryDto {
  @IsOptional()
  @QueryInteger({ min: 1, max: 100 })
  @ApiProperty({ required: false, default: 50 })
  limit?: number;

  /** Id of the last group of the page before. */
  @IsOptional()
  @QueryString()
  after?: string;

  @IsOptional()
  @QueryString({ oneOf: GROUP_STATES })
  state?: GroupState;

  /** Name of the group. */
  @IsOptional()
  @QueryString()
  name?: string;

  /** Schedule that made it. */
  @IsOptional()
  @QueryString()
  schedule?: string;

  /**
   * `key=value` or `key`: groups with this label. May be given up to 5 times: different keys must all match, of several values of
   * one key any. @example ["team=vision"]
   */
  @IsOptional()
  @QueryTextList(LABEL_FILTER, { max: MAX_LABEL_FILTERS })
  label?: string[];
}

export class GetGroupQueryDto {
  /** Seconds to wait until the group has ended; then the answer is the group as it is. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 60 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;
}
