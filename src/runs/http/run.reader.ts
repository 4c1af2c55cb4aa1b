import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Page } from '../../database/read-page.js';
import {
  recordOfCurrentAttempt,
  toOpAttemptDto,
  type AttemptRecord,
  type OpAttemptDto,
} from './dto/op-attempt.dto.js';
import { toOpRunDto, type OpRunDto } from './dto/op-run.dto.js';
import { toPolledEventDto, type PolledEventDto } from './dto/event.dto.js';
import { EventRepository, type TimelineRow } from '../events/event.repository.js';
import { IdempotencyRepository } from '../idempotency/idempotency.repository.js';
import { IdempotencyLedger, type Idempotency } from '../journal/idempotency-ledger.js';
import { RunRepository } from '../storage/run.repository.js';
import { MAX_ATTEMPTS_OF_A_RUN, type RunRecord } from '../machine/run.js';
import { newestOf, RunViews } from '../storage/run-views.js';

/** Timeline entries read at once for a poll. */
const POLL_PAGE = 1000;
/** Bytes of messages and payloads after which such a page ends. */
const POLL_PAGE_BYTES = 1024 * 1024;

/** Reads runs, their timelines and their attempts. Every method throws RunNotFound for an unknown id. */
@Injectable()
export class RunReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: RunRepository,
    private readonly events: EventRepository,
    private readonly views: RunViews,
    private readonly idempotency: IdempotencyRepository,
  ) {}

  /** The run as clients see it; without events its timeline is left empty. */
  async getRun(id: string, includeEvents = true): Promise<OpRunDto> {
    const { manager } = this.dataSource;
    const run = await this.runs.get(manager, id);
    const events = includeEvents ? await this.views.newestEvents(manager, [run]) : undefined;
    return toOpRunDto(run, events?.get(id) ?? []);
  }

  /** The run of an earlier request with this key, as it is now, or null. @throws IdempotencyMismatch */
  async findReplay(idempotency: Idempotency): Promise<OpRunDto | null> {
    const key = await this.idempotency.find(this.dataSource.manager, idempotency.scope);
    const id = new IdempotencyLedger(new Map(key ? [[key.scope, key]] : [])).replayOf(idempotency);
    return id === null ? null : this.getRun(id);
  }

  /** A page of the attempts, oldest first, each with its newest events. */
  async listAttempts(
    id: string,
    { after = 0, limit = MAX_ATTEMPTS_OF_A_RUN }: { readonly after?: number; readonly limit?: number },
  ): Promise<Page<OpAttemptDto>> {
    // One snapshot, so that an attempt opened meanwhile is neither missed nor shown twice.
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      const run = await this.runs.get(manager, id);
      const page = { after, limit, maxBytes: this.views.maxBytes };
      const ended = await this.runs.listEndedAttempts(manager, id, page);
      const records: AttemptRecord[] = ended.attempts;
      const showsCurrent = !ended.hasMore && run.attempt > after && records.length < limit;
      if (showsCurrent) records.push(recordOfCurrentAttempt(run));
      const ranges = records.map(({ firstEvent, endEvent }) =>
        newestOf({ runId: id, from: firstEvent, to: endEvent }),
      );
      const byAttempt = new Map(records.map(({ attempt }) => [attempt, [] as TimelineRow[]]));
      for (const event of await this.views.listNewest(manager, ranges))
        byAttempt.get(event.attempt)?.push(event);
      return {
        items: records.map((attempt) => toOpAttemptDto(run, attempt, byAttempt.get(attempt.attempt) ?? [])),
        hasMore: !showsCurrent && run.attempt > (records.at(-1)?.attempt ?? after),
      };
    });
  }

  /**
   * The timeline after an index (-1: all) in pages of bounded size, with the present state of the run. Resolves once the
   * run is found, so an unknown id is an error and not a broken stream.
   */
  async pollEvents(id: string, after: number, withSender = false): Promise<AsyncIterable<PolledEventDto[]>> {
    const run = await this.runs.get(this.dataSource.manager, id);
    return this.#pages(run, after + 1, withSender);
  }

  async *#pages(run: RunRecord, first: number, withSender: boolean): AsyncGenerator<PolledEventDto[]> {
    for (let from = first; from < run.eventCount;) {
      const range = { runId: run.id, from, to: Math.min(from + POLL_PAGE, run.eventCount) };
      const page = await this.events.listPage(this.dataSource.manager, range, POLL_PAGE_BYTES);
      if (page.length === 0) return;
      yield page.map((event) => toPolledEventDto(event, run.state, withSender));
      from += page.length;
    }
  }
}
