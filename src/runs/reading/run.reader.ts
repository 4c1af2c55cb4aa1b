import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Page } from '../../database/sql/read-page.js';
import {
  toOpAttemptDto,
  type AttemptRecord,
  type OpAttemptDto,
  toOpRunDto,
  type OpRunDto,
} from '../dto/op-run.dto.js';
import { toPolledEventDto, toTimelineEventDto, type PolledEventDto } from '../dto/event.dto.js';
import { EventRepository, type TimelineRow } from '../events/event.repository.js';
import {
  IdempotencyRepository,
  IdempotencyLedger,
  type Idempotency,
} from '../idempotency/idempotency.repository.js';
import { listEndedAttempts } from '../storage/ended-attempts.js';
import { RunRepository } from '../storage/run.repository.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';
import { RunNotFound } from '../run.errors.js';
import { newestOf, RunViews } from '../storage/run-views.js';
import { BatchedRunReads, type RunVersion } from './batched-run-reads.js';

/** Timeline entries read at once for a poll. */
const POLL_PAGE = 1000;
/** Bytes of messages and payloads after which such a page ends. */
const POLL_PAGE_BYTES = 1024 * 1024;

/** A part of a run's timeline. */
export interface PolledTimeline {
  /** The version of the run that it belongs to. */
  readonly version: RunVersion;
  /** The entries, or pages of them. */
  readonly events: PolledEventDto[] | AsyncIterable<PolledEventDto[]>;
}

/** A run as clients see it, with the version that is shown. */
export interface ReadRun {
  readonly run: OpRunDto;
  readonly version: RunVersion;
}

/** Reads runs, their timelines and their attempts. Every method throws RunNotFound for an unknown id. */
@Injectable()
export class RunReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: RunRepository,
    private readonly events: EventRepository,
    private readonly views: RunViews,
    private readonly batched: BatchedRunReads,
    private readonly idempotency: IdempotencyRepository,
  ) {}

  /** The run as clients see it; without events its timeline is left empty. */
  async getRun(id: string, includeEvents = true): Promise<OpRunDto> {
    return (await this.readRun(id, includeEvents)).run;
  }

  /** As `getRun`, with the version that is shown. @param alone runs the read of a run that is too large for a shared statement */
  async readRun(
    id: string,
    includeEvents: boolean,
    alone: (read: () => Promise<ReadRun>) => Promise<ReadRun> = (read) => read(),
  ): Promise<ReadRun> {
    const view = await this.batched.findView(id, includeEvents);
    if (!view) throw new RunNotFound(id);
    if (view.run && view.events !== null) {
      return { run: toOpRunDto(view.run, view.events), version: view.run };
    }
    return alone(async () => {
      const { manager } = this.dataSource;
      const version = view.run ?? (await this.runs.get(manager, id));
      const events = includeEvents ? await this.views.newestEvents(manager, [version]) : undefined;
      return { run: toOpRunDto(version, events?.get(id)?.map(toTimelineEventDto) ?? []), version };
    });
  }

  /** The version of the run as it is now. */
  async getVersion(id: string): Promise<RunVersion> {
    const version = await this.batched.findVersion(id);
    if (!version) throw new RunNotFound(id);
    return version;
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
      const ended = await listEndedAttempts(manager, id, page);
      const records: AttemptRecord[] = ended.attempts;
      const showsCurrent = !ended.hasMore && run.attempt > after && records.length < limit;
      if (showsCurrent) records.push({ ...run, runId: run.id, id: run.attemptId, endEvent: run.eventCount });
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

  /** The timeline after an index (-1: all), with the present state of the run; a long one in pages of bounded size. */
  async readTimeline(id: string, after: number, withSender = false): Promise<PolledTimeline> {
    const first = after + 1;
    const timeline = withSender
      ? { version: await this.getVersion(id), events: null }
      : await this.batched.findTimeline(id, first);
    if (!timeline) throw new RunNotFound(id);
    const { version, events } = timeline;
    return { version, events: events ?? this.#pages(version, first, withSender) };
  }

  async *#pages(run: RunVersion, first: number, withSender: boolean): AsyncGenerator<PolledEventDto[]> {
    for (let from = first; from < run.eventCount;) {
      const range = { runId: run.id, from, to: Math.min(from + POLL_PAGE, run.eventCount) };
      const page = await this.events.listPage(this.dataSource.manager, range, POLL_PAGE_BYTES);
      if (page.length === 0) return;
      yield page.map((event) => toPolledEventDto(event, run.state, withSender));
      from += page.length;
    }
  }
}
