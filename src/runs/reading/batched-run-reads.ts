import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { BatchedReads } from '../../database/sql/batched-reads.js';
import { plainArray, preparedRows } from '../../database/sql/sql.js';
import { Settings } from '../../config/settings.js';
import type { PolledEventDto, TimelineEventDto } from '../dto/event.dto.js';
import { isRunId } from '../machine/new-id.js';
import { JSON_FIELDS, RUN_BYTES, RUNS, WRITTEN_BY } from '../storage/run-columns.js';
import type { VersionedRun } from '../storage/run.repository.js';

/** Entries of a timeline that a shared statement reads, at most. */
const SHARED_EVENTS = 100;

/** Bytes of a run, and of its entries, that a shared statement reads, at most. */
const SHARED_BYTES = 16 * 1024;

const LARGEST_INTEGER = 2 ** 31 - 1;

/** The version of a run, with its state. */
export type RunVersion = Pick<VersionedRun, 'id' | 'state' | 'eventCount' | 'updatedAt' | 'writtenBy'>;

/** A run with its whole timeline. */
export interface BatchedView {
  /** null: too large for a shared statement. */
  readonly run: VersionedRun | null;
  /** null: too large for a shared statement, or not asked for. */
  readonly events: TimelineEventDto[] | null;
}

/** A part of a timeline. */
export interface BatchedTimeline {
  readonly version: RunVersion;
  /** null: too large for a shared statement. */
  readonly events: PolledEventDto[] | null;
}

const IS_LIGHT = `${RUN_BYTES} <= ${SHARED_BYTES}`;

const RUN_COLUMNS = [
  RUNS.select('r', RUNS.except('size', 'request', ...JSON_FIELDS)),
  ...JSON_FIELDS.map((field) => `case when ${IS_LIGHT} then r."${RUNS.column(field)}" end as "${field}"`),
  `${IS_LIGHT} as "isLight"`,
  WRITTEN_BY,
].join(', ');

const VERSION_COLUMNS = `${RUNS.select('r', ['id', 'state', 'eventCount', 'updatedAt'])}, ${WRITTEN_BY}`;

// The texts have the fields of the DTOs, in their order; types and states need no escapes.
const TIME = `to_char(e.t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const TIMELINE_EVENT = `'{"id":' || e.index || ',"attempt":' || e.attempt || ',"type":"' || e.type || '","t":"' || ${TIME}
                || '","msg":' || e.msg::text || ',"payload":' || e.payload::text || '}'`;
const POLLED_EVENT = `'{"id":' || e.index || ',"type":"' || e.type || '","t":"' || ${TIME} || '","msg":' || e.msg::text
                || ',"state":"' || r.state || '","payload":' || e.payload::text || '}'`;

const READ_VERSIONS = `select ${VERSION_COLUMNS}
       from ${RUNS.name} r
      where r.id = any($1::uuid[])`;

const READ_RUNS = `select ${RUN_COLUMNS}, null as events
       from ${RUNS.name} r
      where r.id = any($1::uuid[])`;

const READ_VIEWS = `select ${RUN_COLUMNS}, ${timeline('0', TIMELINE_EVENT, '$2::integer', IS_LIGHT)} as events
       from ${RUNS.name} r
      where r.id = any($1::uuid[])`;

const READ_TIMELINES = `select ${VERSION_COLUMNS}, w.first, ${timeline('w.first', POLLED_EVENT, String(SHARED_BYTES))} as events
       from unnest($1::uuid[], $2::integer[]) as w (id, first)
       join ${RUNS.name} r on r.id = w.id`;

type ViewRow = VersionedRun & Pick<BatchedView, 'events'> & { readonly isLight: boolean };
type TimelineRow = RunVersion & Pick<BatchedTimeline, 'events'> & { readonly first: number };

/** Point reads of runs, which concurrent requests share. Each finds undefined for an unknown id. */
@Injectable()
export class BatchedRunReads {
  readonly #versions: BatchedReads<string, RunVersion>;
  readonly #runs: BatchedReads<string, BatchedView>;
  readonly #views: BatchedReads<string, BatchedView>;
  /** By id and index of the first entry, see `timelineKey`. */
  readonly #timelines: BatchedReads<string, BatchedTimeline>;

  constructor(
    private readonly dataSource: DataSource,
    @Inject(Settings) { maxAnswerBytes }: Pick<Settings, 'maxAnswerBytes'>,
  ) {
    const maxEventBytes = Math.min(SHARED_BYTES, maxAnswerBytes);
    this.#versions = new BatchedReads((ids) => this.#readVersions(ids));
    this.#runs = new BatchedReads((ids) => this.#readViews(READ_RUNS, [plainArray(ids)]));
    this.#views = new BatchedReads((ids) => this.#readViews(READ_VIEWS, [plainArray(ids), maxEventBytes]));
    this.#timelines = new BatchedReads((keys) => this.#readTimelines(keys));
  }

  async findVersion(id: string): Promise<RunVersion | undefined> {
    return isRunId(id) ? this.#versions.load(id) : undefined;
  }

  async findView(id: string, withEvents: boolean): Promise<BatchedView | undefined> {
    if (!isRunId(id)) return undefined;
    return withEvents ? this.#views.load(id) : this.#runs.load(id);
  }

  /** The timeline from an index on. */
  async findTimeline(id: string, first: number): Promise<BatchedTimeline | undefined> {
    return isRunId(id) ? this.#timelines.load(timelineKey(id, Math.min(first, LARGEST_INTEGER))) : undefined;
  }

  async #readVersions(ids: readonly string[]): Promise<ReadonlyMap<string, RunVersion>> {
    const found = await preparedRows<RunVersion>(this.dataSource, READ_VERSIONS, [plainArray(ids)]);
    return new Map(found.map((version) => [version.id, version]));
  }

  async #readViews(statement: string, params: readonly unknown[]): Promise<ReadonlyMap<string, BatchedView>> {
    const found = await preparedRows<ViewRow>(this.dataSource, statement, params);
    return new Map(found.map((run) => [run.id, { run: run.isLight ? run : null, events: run.events }]));
  }

  async #readTimelines(keys: readonly string[]): Promise<ReadonlyMap<string, BatchedTimeline>> {
    const found = await preparedRows<TimelineRow>(this.dataSource, READ_TIMELINES, [
      plainArray(keys.map((key) => key.slice(0, ID_LENGTH))),
      plainArray(keys.map((key) => key.slice(ID_LENGTH))),
    ]);
    return new Map(
      found.map((version) => [timelineKey(version.id, version.first), { version, events: version.events }]),
    );
  }
}

const ID_LENGTH = 36;

function timelineKey(id: string, first: number): string {
  return id + first;
}

/**
 * SQL of the JSON array of the entries `e` of a run `r`, from an index on; null when they are too many or too large. They
 * are read only if they are not too many and the condition holds.
 */
function timeline(first: string, entry: string, maxBytes: string, condition = 'true'): string {
  return `case when r.event_count - ${first} <= ${SHARED_EVENTS} and ${condition} then (
              select case
                       when coalesce(max(e.bytes), 0) <= ${maxBytes}
                       then ('[' || coalesce(
                         string_agg(${entry}, ',' order by e.index) filter (where e.bytes <= ${maxBytes}),
                         ''
                       ) || ']')::json
                     end
                from (
                  select e.*, sum(e.size) over (order by e.index) as bytes
                    from events e
                   where e.run_id = r.id
                     and e.index >= ${first}
                   order by e.index
                ) e
            ) end`;
}
