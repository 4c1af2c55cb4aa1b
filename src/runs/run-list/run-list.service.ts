import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { EventEntity } from '../../database/entities/event.entity.js';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { InvalidRequest } from '../../http/domain-error.js';
import { toOpRunDto } from '../dto/op-run.dto.js';
import { EMBEDDED_EVENTS, isRunId } from '../run.reader.js';
import { toRunRecord } from '../run-record.js';
import type { ListRunsQueryDto, OpRunListDto } from './list-runs.dto.js';
import { readFilter, readPage, type RunPage } from './run-filter.js';
import { RunListRepository, type RunPlace } from './run-list.repository.js';

/** Lists runs, newest first, in pages that cost the same however deep they are. */
@Injectable()
export class RunListService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: RunListRepository,
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
    const events =
      query.include_events === false ? new Map<string, EventEntity[]>() : await this.#events(shown);
    return {
      object: 'list',
      data: shown.map((run) => toOpRunDto(toRunRecord(run), events.get(run.id) ?? [])),
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

  async #events(runs: readonly RunEntity[]): Promise<Map<string, EventEntity[]>> {
    const byRun = new Map(runs.map(({ id }) => [id, [] as EventEntity[]]));
    const withEvents = runs.filter(({ eventCount }) => eventCount > 0);
    if (withEvents.length === 0) return byRun;
    const events = await this.runs.listNewestEvents(this.dataSource.manager, withEvents, EMBEDDED_EVENTS);
    for (const event of events) byRun.get(event.runId)?.push(event);
    return byRun;
  }
}
