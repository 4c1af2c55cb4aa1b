import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql.js';
import type { EventEntity } from '../../database/entities/event.entity.js';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { CREATED_BOUNDS, type CreatedBound, type RunFilter } from './run-filter.js';

/** A place in the list: the run's time of creation, then its id. */
export interface RunPlace {
  readonly createdAt: Date;
  readonly id: string;
}

const OPERATORS: Record<CreatedBound, string> = { gte: '>=', lte: '<=', gt: '>', lt: '<' };

const COLUMNS = `
  id, state, priority, progress, attempt, attempt_id as "attemptId", first_event as "firstEvent",
  event_count as "eventCount", failures, reclaims, max_attempts as "maxAttempts", image, inputs,
  outputs_template as "outputsTemplate", outputs, ram_mb as "ramMb", vram_mb as "vramMb", cpu,
  gpu_id as "gpuId", topic, attributes, definition_id as "definitionId",
  definition_version as "definitionVersion", worker_id as "workerId", error_message as "errorMessage",
  queued_at as "queuedAt", assigned_at as "assignedAt", started_at as "startedAt",
  finished_at as "finishedAt", created_at as "createdAt", updated_at as "updatedAt"`;

/** SQL of the list of runs. */
@Injectable()
export class RunListRepository {
  /** Where a run stands in the list, or null for an unknown id. */
  async findPlace(manager: EntityManager, id: string): Promise<RunPlace | null> {
    const [place] = await rows<RunPlace>(
      manager,
      `select created_at as "createdAt", id
         from runs
        where id = $1::uuid`,
      [id],
    );
    return place ?? null;
  }

  /**
   * Runs that pass the filter, from the place on, walking to older or to newer ones; the place itself is left out.
   * The order is that of the walk.
   */
  list(
    manager: EntityManager,
    filter: RunFilter,
    from: { readonly place: RunPlace | null; readonly direction: 'older' | 'newer' },
    limit: number,
  ): Promise<RunEntity[]> {
    const params: unknown[] = [];
    const bind = (value: unknown, type: string): string => `$${params.push(value)}::${type}`;
    const conditions = conditionsOf(filter, bind);
    const older = from.direction === 'older';
    if (from.place) {
      const { createdAt, id } = from.place;
      const place = `(${bind(createdAt.toISOString(), 'timestamptz')}, ${bind(id, 'uuid')})`;
      conditions.push(`(created_at, id) ${older ? '<' : '>'} ${place}`);
    }
    const order = older ? 'created_at desc, id desc' : 'created_at, id';
    return rows<RunEntity>(
      manager,
      `select ${COLUMNS}
         from runs
        ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
        order by ${order}
        limit ${bind(limit, 'integer')}`,
      params,
    );
  }

  /** The newest events of several runs, each run's in order. @param most entries of one run at the most */
  listNewestEvents(manager: EntityManager, runs: readonly RunEntity[], most: number): Promise<EventEntity[]> {
    return rows<EventEntity>(
      manager,
      `select e.run_id as "runId", e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload
         from unnest($1::uuid[], $2::integer[]) as wanted (run_id, past)
         join events e on e.run_id = wanted.run_id and e.index >= wanted.past - $3 and e.index < wanted.past
        order by e.run_id, e.index`,
      [runs.map(({ id }) => id), runs.map(({ eventCount }) => eventCount), most],
    );
  }
}

function conditionsOf(filter: RunFilter, bind: (value: unknown, type: string) => string): string[] {
  const conditions: string[] = [];
  if (filter.state !== undefined) conditions.push(`state = ${bind(filter.state, 'text')}`);
  if (filter.definitionId !== undefined)
    conditions.push(`definition_id = ${bind(filter.definitionId, 'text')}`);
  if (filter.image !== undefined) conditions.push(`image = ${bind(filter.image, 'text')}`);
  if (filter.topic !== undefined) conditions.push(`topic = ${bind(filter.topic, 'text')}`);
  for (const bound of CREATED_BOUNDS) {
    const time = filter.created[bound];
    if (time) conditions.push(`created_at ${OPERATORS[bound]} ${bind(time.toISOString(), 'timestamptz')}`);
  }
  return conditions;
}
