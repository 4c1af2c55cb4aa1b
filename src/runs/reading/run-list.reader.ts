import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { RunTagEntity } from '../../database/entities/run-tag.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { Settings } from '../../config/settings.js';
import { rows } from '../../database/sql/sql.js';
import { toTimelineEventDto } from '../dto/event.dto.js';
import { toOpRunDto } from '../dto/op-run.dto.js';
import { listOptions } from '../options/option-values.js';
import { RunViews } from '../storage/run-views.js';
import { isInExecution, isTerminal, TERMINAL_STATES } from '../machine/run-state.js';
import { EXECUTIONS, RECORD_COLUMNS, RUN_BYTES, RUNS } from '../storage/run-columns.js';
import type { RunRecord } from '../machine/run.js';
import { isIssuedId, isRunId } from '../machine/new-id.js';
import type { ListRunsQueryDto, OpRunListDto } from '../dto/list-runs.dto.js';
import { CREATED_BOUNDS, readFilter, readPage, type CreatedBound, type RunFilter } from './run-filter.js';

export type RunPlace = Pick<RunRecord, 'createdAt' | 'id'>;

export interface RunWalk {
  /** The walk starts after this run; null: at the end of the list. */
  readonly place: RunPlace | null;
  readonly direction: 'older' | 'newer';
  readonly limit: number;
  /** Bytes of the runs without their events; the first is read whatever its size. */
  readonly maxBytes: number;
}

export type ListedRun = RunRecord & {
  /** How many runs were found, up to one more than the limit. */
  readonly found: string;
};

/** The conditions on the time of creation: operator, and the direction of the walks that start at the bound. */
const BOUNDS = {
  gte: { operator: '>=', direction: 'newer', keeps: (time: Date, bound: Date) => time >= bound },
  lte: { operator: '<=', direction: 'older', keeps: (time: Date, bound: Date) => time <= bound },
  gt: { operator: '>', direction: 'newer', keeps: (time: Date, bound: Date) => time > bound },
  lt: { operator: '<', direction: 'older', keeps: (time: Date, bound: Date) => time < bound },
} as const satisfies Record<CreatedBound, object>;

/**
 * True for every run, and the predicate of the index `runs_by_outcome`. A list with a field leaves it out, so that the
 * planner, which assumes that frequent values are evenly spread, uses the index of the field.
 */
const ONLY_BY_OUTCOME = 'max_attempts > 0';

const TAGS = new EntityTable(RunTagEntity);

/** Lists runs, newest first, in pages that cost the same at any depth. */
@Injectable()
export class RunListReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly views: RunViews,
    private readonly settings: Settings,
  ) {}

  /** @throws InvalidRequest for invalid filters and for a cursor that is neither a run nor one that retention has removed */
  async list(query: ListRunsQueryDto): Promise<OpRunListDto> {
    const filter = readFilter(query);
    const { limit, direction, cursor } = readPage(query);
    const { manager } = this.dataSource;
    const place = cursor === undefined ? null : await this.#findPlace(manager, cursor, direction);
    const walk = { place, direction, limit, maxBytes: this.views.maxBytes };
    const page = await listRuns(manager, filter, walk);
    const hasMore = Number(page[0]?.found ?? 0) > page.length;
    if (direction === 'newer') page.reverse();
    const events = query.include_events === false ? undefined : await this.views.newestEvents(manager, page);
    return {
      object: 'list',
      data: page.map((run) =>
        toOpRunDto(
          { ...run, options: listOptions(run.options) },
          events?.get(run.id)?.map(toTimelineEventDto) ?? [],
        ),
      ),
      has_more: hasMore,
      url: '/runs',
    };
  }

  /**
   * The place of a run in the list. Ids are in the order of creation: for a run that retention has removed, the walk starts after
   * the nearest run that it has passed, or at the end of the list if there is none.
   * @throws InvalidRequest for an id that cannot be that of a removed run
   */
  async #findPlace(
    manager: EntityManager,
    id: string,
    direction: RunWalk['direction'],
  ): Promise<RunPlace | null> {
    if (isRunId(id)) {
      const order = direction === 'older' ? '>= $1::uuid order by r.id' : '<= $1::uuid order by r.id desc';
      const [place] = await rows<RunPlace>(
        manager,
        `select ${RUNS.select('r', ['createdAt', 'id'])}
           from ${RUNS.name} r
          where r.id ${order}
          limit 1`,
        [id],
      );
      if (place?.id === id) return place;
      if (this.settings.runRetentionDays > 0 && isIssuedId(id)) return place ?? null;
    }
    throw new InvalidRequest('The cursor is not the id of a run');
  }
}

/**
 * Runs that pass the filter, in the order of the walk. Every index of the list has the outcome before the time: a list of
 * one outcome reads a range of one index, a list of all merges the first runs of each outcome. So the cost depends on
 * the limit and not on the size of the table. A list of a state of execution walks through `executions`, a list by tags reads
 * the range of the first tag; they look up the other conditions for each run. A page ends early where its runs come to more
 * bytes than it may have.
 */
export function listRuns(manager: EntityManager, filter: RunFilter, walk: RunWalk): Promise<ListedRun[]> {
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const { state } = filter;
  const fields = fieldConditions(filter, bind);
  // The predicate of the index of all runs, for a list without a field.
  const ofIndex = fields.length > 0 ? [] : [ONLY_BY_OUTCOME];
  // An outcome tells the states of ended runs only.
  if (state !== undefined && !isTerminal(state)) fields.push(`r.state = ${bind(state, 'text')}`);
  const times = timeConditions(filter, walk, bind);
  const tags = (filter.tags ?? []).map((tag) => bind(tag, 'text'));
  const order = walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id';
  const limit = bind(walk.limit, 'integer');
  const ofOutcome = (columns: string, outcome: string): string =>
    `select ${columns}
         from ${RUNS.name} r
        where ${[`r.outcome = ${outcome}`, ...ofIndex, ...fields, ...times].join(' and ')}
        order by ${order}
        limit ${limit} + 1`;
  const outcomes = state === undefined ? OUTCOMES : [isTerminal(state) ? state : 'OPEN'];
  const lookUp = { fields, times, order, limit };
  const stretch = (): string => {
    if (state !== undefined && isInExecution(state)) return lookedUpStretch(EXECUTING, tags, lookUp);
    const [first, ...others] = tags;
    if (first !== undefined) return lookedUpStretch(taggedBy(first), others, lookUp);
    return ofOutcome('r.created_at, r.id', 's.outcome');
  };
  const isOneRange = state !== undefined && !isInExecution(state) && tags.length === 0;
  const found = isOneRange
    ? ofOutcome('r.*', bind(outcomes[0], 'text'))
    : `select r.*
         from (
           select stretch.id as page_id
             from unnest(${bind(outcomes, 'text[]')}) as s (outcome)
            cross join lateral (
              ${stretch()}
            ) stretch
            order by ${order}
            limit ${limit} + 1
         ) page
         join ${RUNS.name} r on r.id = page_id
        order by ${order}`;
  return rows(
    manager,
    `select ${RECORD_COLUMNS}, r.found
         from (
           select r.*,
                  count(*) over () as found,
                  sum(${RUN_BYTES}) over walk as bytes_so_far,
                  row_number() over walk as nth
             from (${found}) r
           window walk as (order by ${order} rows unbounded preceding)
         ) r
        where r.bytes_so_far <= ${bind(walk.maxBytes, 'bigint')} or r.nth = 1
        order by ${order}
        limit ${limit}`,
    params,
  );
}

interface LookUp {
  readonly fields: readonly string[];
  readonly times: readonly string[];
  readonly order: string;
  readonly limit: string;
}

const OUTCOMES = ['OPEN', ...TERMINAL_STATES] as const;

/** Runs in execution, as rows of created_at and id. */
const EXECUTING = `select created_at, run_id as id from ${EXECUTIONS.name}`;

/** Runs of the outcome `s.outcome` with the tag, as rows of created_at and id. */
function taggedBy(tag: string): string {
  return `select created_at, run_id as id from ${TAGS.name} where tag = ${tag} and outcome = s.outcome`;
}

/**
 * SQL of the first runs of a source that have the tags and fulfil the conditions on fields of `runs r`. `offset 0` keeps the
 * planner from reading all runs that fulfil a condition instead of looking up those of the source, one by one.
 */
function lookedUpStretch(
  source: string,
  tags: readonly string[],
  { fields, times, order, limit }: LookUp,
): string {
  const lookUps = [
    ...tags.map((tag) => `select from ${TAGS.name} o where o.run_id = t.id and o.tag = ${tag}`),
    ...(fields.length > 0
      ? [`select from ${RUNS.name} r where r.id = t.id and ${fields.join(' and ')}`]
      : []),
  ];
  return `select t.created_at, t.id
                from (${source}) t
                ${lookUps.map((one, n) => `cross join lateral (${one} offset 0) as match${n}`).join(' ')}
               ${times.length > 0 ? `where ${times.join(' and ')}` : ''}
               order by ${order}
               limit ${limit} + 1`;
}

type Bind = (value: unknown, type: string) => string;

/** Conditions on fields that never change. */
function fieldConditions({ definitionId, image, topic, concurrencyKey }: RunFilter, bind: Bind): string[] {
  const fields = { definition_id: definitionId, image, topic, concurrency_key: concurrencyKey };
  const conditions = Object.entries(fields).flatMap(([column, value]) =>
    value === undefined ? [] : [`${column} = ${bind(value, 'text')}`],
  );
  // The index of topic and image has a hash of the image: an entry of both texts could be too long.
  if (topic !== undefined && image !== undefined) {
    conditions.push(`hashtextextended(image, 0) = hashtextextended(${bind(image, 'text')}, 0)`);
  }
  return conditions;
}

/**
 * Of the conditions on the side where the walk starts, only the tightest: an index scan starts at any of them and would
 * read rows in vain up to the tightest.
 */
function timeConditions({ created }: RunFilter, { place, direction }: RunWalk, bind: Bind): string[] {
  const given = CREATED_BOUNDS.flatMap((name) => {
    const time = created[name];
    return time ? [{ name, time, isBehind: BOUNDS[name].direction === direction }] : [];
  });
  const bounds = given.filter(
    ({ name, time, isBehind }) => !(place && isBehind && BOUNDS[name].keeps(place.createdAt, time)),
  );
  const conditions = bounds.map(
    ({ name, time }) => `created_at ${BOUNDS[name].operator} ${bind(time.toISOString(), 'timestamptz')}`,
  );
  if (!place || bounds.some(({ isBehind }) => isBehind)) return conditions;
  const at = `(${bind(place.createdAt.toISOString(), 'timestamptz')}, ${bind(place.id, 'uuid')})`;
  return [...conditions, `(created_at, id) ${direction === 'older' ? '<' : '>'} ${at}`];
}
