import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { Settings } from '../../config/settings.js';
import { rows } from '../../database/sql/sql.js';
import { toTimelineEventDto } from '../dto/event.dto.js';
import type { ListRunsQueryDto, OpRunListDto } from '../dto/list-runs.dto.js';
import { toOpRunDto } from '../dto/op-run.dto.js';
import { isIssuedId, isRunId } from '../machine/new-id.js';
import type { RunRecord } from '../machine/run.js';
import { listOptions } from '../options/stored-options.js';
import type { PendingReason } from '../pending-reason.js';
import { RUNS } from '../storage/run-columns.js';
import { RunViews } from '../storage/run-views.js';
import { findDriver, type RunPlace, type WalkStart } from './list-conditions.js';
import { listRuns, listRunsById } from './list-runs.js';
import { readIdRange, readPage, type RunFilter } from './run-filter.js';

/** Tells why runs are pending. */
export interface PendingReasonSource {
  /** By id. @param runs those that are pending */
  findReasons(
    manager: EntityManager,
    runs: readonly RunRecord[],
  ): Promise<ReadonlyMap<string, PendingReason>>;
}

/** Lists runs, newest first, in pages that cost the same at any depth. */
@Injectable()
export class RunListReader {
  #reasons: PendingReasonSource | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly views: RunViews,
    private readonly settings: Settings,
  ) {}

  /** Sets what tells why the listed runs are pending. */
  explainBy(reasons: PendingReasonSource): void {
    this.#reasons = reasons;
  }

  /**
   * @param query its filters count only as `filter` has them
   * @throws InvalidRequest for invalid filters and for a cursor that is neither a run nor one that retention has removed
   */
  async list(query: ListRunsQueryDto, filter: RunFilter): Promise<OpRunListDto> {
    const { limit, direction, cursor } = readPage(query);
    const { manager } = this.dataSource;
    const place = cursor === undefined ? null : await this.#findPlace(manager, cursor, direction);
    const walk = { place, direction, limit, maxBytes: this.views.maxBytes };
    const ids = readIdRange(query);
    const page = ids
      ? await listRunsById(manager, ids, walk)
      : await listRuns(manager, filter, walk, await findDriver(manager, filter));
    const hasMore = Number(page[0]?.found ?? 0) > page.length;
    if (direction === 'newer') page.reverse();
    const events = query.include_events === false ? undefined : await this.views.newestEvents(manager, page);
    const pending = page.filter(({ state }) => state === 'PENDING');
    const reasons = pending.length === 0 ? undefined : await this.#reasons?.findReasons(manager, pending);
    return {
      object: 'list',
      data: page.map((run) => {
        const reason = reasons?.get(run.id);
        return {
          ...toOpRunDto(
            { ...run, options: listOptions(run.options) },
            events?.get(run.id)?.map(toTimelineEventDto) ?? [],
          ),
          ...(reason !== undefined && { reason }),
        };
      }),
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
    direction: WalkStart['direction'],
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
