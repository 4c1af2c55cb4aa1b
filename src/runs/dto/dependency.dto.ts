import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { Check, NestedList, OptionalField } from '../../common/http/validation/dto-decorators.js';
import { isRunId } from '../machine/new-id.js';
import { NEEDS, type Dependency, type Need } from '../machine/run.js';
import type { AwaitedEnd } from '../storage/groups.js';

/** Runs and groups that a run may wait for, at most. */
export const MAX_DEPENDENCIES = 50;

/** A field that holds the id of a run or group. */
export function IdField(): PropertyDecorator {
  return applyDecorators(
    OptionalField(),
    Check('isId', (value) => typeof value === 'string' && isRunId(value), 'must be an id'),
    ApiProperty({ type: 'string', format: 'uuid', required: false }),
  );
}

@ApiSchema({
  name: 'Dependency',
  description: 'A run or a group that must end first: exactly one of `run` and `group`.',
})
export class DependencyDto {
  /** Id of a run. */
  @IdField()
  run?: string;

  /** Id of a group. */
  @IdField()
  group?: string;

  /** What its end must be; if it ends otherwise, the run that waits is cancelled. A group has `failed` if one of its members has. */
  @OptionalField()
  @IsIn(NEEDS, { message: `$property must be one of ${NEEDS.join(', ')}` })
  @ApiProperty({
    enum: NEEDS,
    enumName: 'DependencyNeed',
    enumSchema: { description: 'What the end of a run or group must be.' },
    required: false,
    default: 'completed',
  })
  when?: Need;
}

@ApiSchema({
  name: 'AwaitedEnd',
  description: 'A run or a group that must end first: one of `run` and `group`.',
})
export class AwaitedEndDto {
  /** The schedule that makes it; absent: it was named by its id. */
  @ApiProperty({ required: false }) schedule?: string;
  /** For which time of the schedule. */
  @ApiProperty({ format: 'date-time', required: false }) nominal_at?: string;
  /** Null: the schedule has not fired the time yet. */
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true, required: false }) run?: string | null;
  @ApiProperty({ type: 'string', format: 'uuid', required: false }) group?: string;
  /** Its state now; null: it is not made yet, or was removed. */
  @ApiProperty({ type: 'string', nullable: true }) state: string | null;
  @ApiProperty({ enum: NEEDS, enumName: 'DependencyNeed' }) when: Need;
}

export function toAwaitedEndDto(end: AwaitedEnd): AwaitedEndDto {
  const { parentId, isGroup, state, need: when, scheduleId, nominalAt } = end;
  return {
    ...(scheduleId !== null && { schedule: scheduleId }),
    ...(nominalAt !== null && { nominal_at: nominalAt.toISOString() }),
    ...(isGroup && parentId !== null ? { group: parentId } : { run: parentId }),
    state,
    when,
  };
}

/** A field that holds what a run waits for. */
export function DependsOnField(): PropertyDecorator {
  return applyDecorators(
    OptionalField(),
    NestedList(() => DependencyDto, { max: MAX_DEPENDENCIES }),
    Check(
      'isOneParentEach',
      (value) =>
        Array.isArray(value) &&
        value.every(
          (one) =>
            one instanceof Object &&
            ('run' in one && one.run !== undefined) !== ('group' in one && one.group !== undefined),
        ),
      'must have entries with either run or group',
    ),
    ApiProperty({ required: false }),
  );
}

/** The dependencies that were asked for, each parent once. */
export function readDependencies(asked: readonly DependencyDto[] = []): Dependency[] {
  const byParent = new Map<string, Dependency>();
  for (const { run, group, when: need = 'completed' } of asked) {
    const parentId = run ?? group ?? '';
    byParent.set(`${parentId} ${need}`, { parentId, isGroup: run === undefined, need });
  }
  return [...byParent.values()];
}
