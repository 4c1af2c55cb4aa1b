import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql.js';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { CREATED_BOUNDS, type CreatedBound, type RunFilter } from './run-filter.js';

/** A place in the list: the run's time of creation, then its id. */
export interface RunPlace {
  readonly createdAt: Date;
  readonly id: string;
}

/** Where a walk through the list begins, and whether it goes to older or to newer runs. */
export interface RunWalk {
  /** Left out of the walk; null: the end of the list that lies behind. */
  readonly place: RunPlace | null;
  readonly direction: 'older' | 'newer';
}

const OPERATORS: Record<CreatedBound, string> = { gte: '>=', lte: '<=', gt: '>', lt: '<' };

const KEEPS: Record<CreatedBound, (time: Date, bound: Date) => boolean> = {
  gte: (time, bound) => time >= bound,
  lte: (time, bound) => time <= bound,
  gt: (time, bound) => time > bound,
  lt: (time, bound) => time < bound,
};

/** Bounds on the side that a walk comes from. */
const BEHIND: Record<RunWalk['direction'], readonly CreatedBound[]> = {
  older: ['lte', 'lt'],
  newer: ['gte', 'gt'],
};

const COLUMNS = `
  id, state, priority, progress, attempt, attempt_id as "attemptId", first_event as "firstEvent",
  event_count as "eventCount", failures, reclaims, max_attempts as "maxAttempts", backoff_s as "backoffS",
  max_backoff_s as "maxBackoffS", start_within_s as "startWithinS", attempt_timeout_s as "attemptTimeoutS",
  image, inputs, outputs_template as "outputsTemplate", outputs, ram_mb as "ramMb", vram_mb as "vramMb", cpu,
  gpu_id as "gpuId", topic, attributes, definition_id as "definitionId",
  definition_version as "definitionVersion", worker_id as "workerId", error_message as "errorMessage",
  queued_at as "queuedAt", not_before as "notBefore", assigned_at as "assignedAt", started_at as "startedAt",
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
  list(manager: EntityManager, filter: RunFilter, walk: RunWalk, limit: number): Promise<RunEntity[]> {
    const params: unknown[] = [];
    const bind = (value: unknown, type: string): string => `$${params.push(value)}::${type}`;
    const conditions = [...fieldConditions(filter, bind), ...timeConditions(filter, walk, bind)];
    return rows<RunEntity>(
      manager,
      `select ${COLUMNS}
         from runs
        ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
        order by ${walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id'}
        limit ${bind(limit, 'integer')}`,
      params,
    );
  }
}

type Bind = (value: unknown, type: string) => string;

function fieldConditions({ state, definitionId, image, topic }: RunFilter, bind: Bind): string[] {
  const fields = { state, definition_id: definitionId, image, topic };
  return Object.entries(fields).flatMap(([column, value]) =>
    value === undefined ? [] : [`${column} = ${bind(value, 'text')}`],
  );
}

/**
 * Of the conditions on the side that the walk comes from, only the tightest: an index scan begins at one of them, not
 * necessarily that one, and reads in vain up to the others.
 */
function timeConditions({ created }: RunFilter, { place, direction }: RunWalk, bind: Bind): string[] {
  const given = CREATED_BOUNDS.flatMap((name) => {
    const time = created[name];
    return time ? [{ name, time, isBehind: BEHIND[direction].includes(name) }] : [];
  });
  const bounds = given.filter(
    ({ name, time, isBehind }) => !(place && isBehind && KEEPS[name](place.createdAt, time)),
  );
  const conditions = bounds.map(
    ({ name, time }) => `created_at ${OPERATORS[name]} ${bind(time.toISOString(), 'timestamptz')}`,
  );
  if (!place || bounds.some(({ isBehind }) => isBehind)) return conditions;
  const at = `(${bind(place.createdAt.toISOString(), 'timestamptz')}, ${bind(place.id, 'uuid')})`;
  return [...conditions, `(created_at, id) ${direction === 'older' ? '<' : '>'} ${at}`];
}
