import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  GROUP_STATES,
  ON_FAILURES,
  type GroupEntity,
  type GroupState,
  type OnFailure,
} from '../../database/entities/group.entity.js';
import {
  CreatedByDto,
  ScheduledForDto,
  toCreatedByDto,
  toScheduledForDto,
} from '../../runs/dto/op-run.dto.js';
import { AwaitedEndDto } from '../../runs/dto/dependency.dto.js';
import { NEEDS, type Need } from '../../runs/machine/run.js';
import { countsOf } from '../../runs/storage/groups.js';

export const GROUP_STATE = {
  enum: GROUP_STATES,
  enumName: 'GroupState',
  enumSchema: {
    description:
      'State of a group: `open` until all members have ended; `completed` when all have COMPLETED, `failed` when one has FAILED, else `cancelled`.',
  },
} as const;

@ApiSchema({ name: 'GroupCounts', description: 'Members of a group by state; together they are its size.' })
export class GroupCountsDto {
  /** Those that are still to be made. */
  @ApiProperty({ type: 'integer' }) uncreated: number;
  @ApiProperty({ type: 'integer' }) pending: number;
  @ApiProperty({ type: 'integer' }) assigned: number;
  @ApiProperty({ type: 'integer' }) running: number;
  @ApiProperty({ type: 'integer' }) completed: number;
  @ApiProperty({ type: 'integer' }) failed: number;
  @ApiProperty({ type: 'integer' }) cancelled: number;
}

@ApiSchema({ name: 'GroupArray', description: 'That a group is an array.' })
export class GroupArrayDto {
  @ApiProperty({ type: 'integer' }) size: number;
}

@ApiSchema({ name: 'Group', description: 'Runs that are handled as one.' })
export class GroupDto {
  @ApiProperty({ format: 'uuid' }) id: string;
  @ApiProperty({ type: 'string', nullable: true }) name: string | null;
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } }) labels: Record<string, string>;
  @ApiProperty(GROUP_STATE) state: GroupState;
  /** Why it was stopped; null: it was not. */
  @ApiProperty({ type: 'string', nullable: true }) reason: string | null;
  /** Members, those that are still to be made included. */
  @ApiProperty({ type: 'integer' }) size: number;
  /** Null: it is none. */
  @ApiProperty({ type: GroupArrayDto, nullable: true }) array: GroupArrayDto | null;
  @ApiProperty({ type: 'integer', nullable: true }) max_parallel: number | null;
  @ApiProperty({ type: 'integer', nullable: true }) max_failed: number | null;
  @ApiProperty({ enum: ON_FAILURES, enumName: 'OnFailure' }) on_failure: OnFailure;
  @ApiProperty({ type: GroupCountsDto }) counts: GroupCountsDto;
  /** Per cent of the members that have ended. */
  @ApiProperty({ type: 'integer', minimum: 0, maximum: 100 }) progress: number;
  /** Of an array, the indexes of the first members that FAILED, as ranges; null: it is none. @example 3,17-19 */
  @ApiProperty({ type: 'string', nullable: true }) failed_indexes: string | null;
  /** Of another group, the names of the first members that FAILED. */
  failed_refs: string[];
  /** What an array waits for before its members are made. */
  @ApiProperty({ type: [AwaitedEndDto] }) waiting_for: AwaitedEndDto[];
  /** What a schedule made it for; null: it was not made by one. */
  @ApiProperty({ type: ScheduledForDto, nullable: true }) schedule: ScheduledForDto | null;
  /** API key that created it; null: the service itself. */
  @ApiProperty({ type: CreatedByDto, nullable: true }) created_by: CreatedByDto | null;
  @ApiProperty({ format: 'date-time' }) created_at: string;
  @ApiProperty({ format: 'date-time' }) updated_at: string;
  /** Null: it has not ended. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) ended_at: string | null;
}

const NODE_KINDS = ['run', 'group'] as const;
const EDGE_STATES = ['open', 'met', 'broken'] as const;

@ApiSchema({ name: 'GroupNode', description: 'A run of a group, or a run or group that members wait for.' })
export class GroupNodeDto {
  @ApiProperty({ format: 'uuid' }) id: string;
  @ApiProperty({ enum: NODE_KINDS }) kind: (typeof NODE_KINDS)[number];
  /** Its name in the group; null: it has none there. */
  @ApiProperty({ type: 'string', nullable: true }) ref: string | null;
  /** Its place in an array; null: it is in none. */
  @ApiProperty({ type: 'integer', nullable: true }) index: number | null;
  @ApiProperty({ type: 'string', nullable: true }) name: string | null;
  /** Null: it was removed. */
  @ApiProperty({ type: 'string', nullable: true }) state: string | null;
  is_member: boolean;
}

@ApiSchema({ name: 'GroupEdge', description: 'That a run waits for another one, or for a group.' })
export class GroupEdgeDto {
  @ApiProperty({ format: 'uuid' }) from: string;
  @ApiProperty({ format: 'uuid' }) to: string;
  @ApiProperty({ enum: NEEDS, enumName: 'DependencyNeed' }) when: Need;
  @ApiProperty({ enum: EDGE_STATES }) state: (typeof EDGE_STATES)[number];
}

@ApiSchema({ name: 'GroupGraph', description: 'The first members of a group, and what they wait for.' })
export class GroupGraphDto {
  @ApiProperty({ type: [GroupNodeDto] }) nodes: GroupNodeDto[];
  @ApiProperty({ type: [GroupEdgeDto] }) edges: GroupEdgeDto[];
  has_more: boolean;
}

/** What an answer says of a group beside its row. */
export interface GroupDetails {
  /** Indexes, or names, of the first members that FAILED, in order. */
  readonly failed: readonly (number | string)[];
  readonly waitingFor: AwaitedEndDto[];
}

export function toGroupDto(group: GroupEntity, { failed, waitingFor }: GroupDetails): GroupDto {
  const { size, completed, failed: failures, cancelled, arrayBody } = group;
  return {
    id: group.id,
    name: group.name,
    labels: group.labels ?? {},
    state: group.state,
    reason: group.reason,
    size,
    array: arrayBody && { size },
    max_parallel: group.maxParallel,
    max_failed: group.maxFailed,
    on_failure: group.onFailure,
    counts: countsOf(group),
    progress: group.state === 'open' ? Math.floor(((completed + failures + cancelled) / size) * 100) : 100,
    failed_indexes: arrayBody && rangesOf(failed.map(Number)),
    failed_refs: arrayBody ? [] : failed.map(String),
    waiting_for: waitingFor,
    schedule: toScheduledForDto(group),
    created_by: toCreatedByDto(group.createdBy, group.createdByName),
    created_at: group.createdAt.toISOString(),
    updated_at: group.updatedAt.toISOString(),
    ended_at: group.endedAt?.toISOString() ?? null,
  };
}

/** Ascending numbers as ranges: `3,17-19`. */
export function rangesOf(numbers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last?.[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([from, until]) => (from === until ? String(from) : `${from}-${until}`)).join(',');
}
