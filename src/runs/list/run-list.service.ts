import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InvalidRequest } from '../../common/http/errors/domain-error.js';
import { toOpRunDto } from '../http/dto/op-run.dto.js';
import { isRunId } from '../storage/run.reader.js';
import { RunViews } from '../http/run-view.js';
import { toRunRecord } from '../storage/run-record.js';
import type { ListRunsQueryDto, OpRunListDto } from './list-runs.dto.js';
import { readFilter, readPage, type RunPage } from './run-filter.js';
import { RunListRepository, type RunPlace } from './run-list.repository.js';

/** Lists runs, newest first, in pages that cost the same however deep they are. */
@Injectable()
export class RunListService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: RunListRepository,
    private readonly views: RunViews,
  ) {}

  /** @throws InvalidRequest for filters and cursors that make no sense, and for a cursor that is no run */
  async list(query: ListRunsQueryDto): Promise<OpRunListDto> {
    const filter = readFilter(query);
    const page = readPage(query);
    const place = await this.#place(page);
    const { manager } = this.dataSource;
    const found = await this.runs.list(manager, filter, { place, direction: page.direction }, page.limit + 1);
    const walked = found.slice(0, page.limit);
    const shown = page.direction === 'older' ? walked : walked.toReversed();
    const events = query.include_events === false ? undefined : await this.views.newestEvents(manager, shown);
    return {
      object: 'list',
      data: shown.map((run) => toOpRunDto(toRunRecord(run), events?.get(run.id) ?? [])),
      has_more: found.length > page.limit,
      url: '/runs',
    };
  }

  async #place({ cursor }: RunPage): Promise<RunPlace | null> {
    if (cursor === undefined) return null;
    const place = isRunId(cursor) ? await this.runs.findPlace(this.dataSource.manager, cursor) : null;
    if (!place) throw new InvalidRequest('The cursor is not the id of a run');
    return place;
  }
}
