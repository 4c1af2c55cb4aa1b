import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { EventRepository, type TimelineRange, type TimelineRow } from '../events/event.repository.js';
import { RunRepository } from '../storage/run.repository.js';
import { toRunRecord, type RunRecord } from '../storage/run-record.js';

/** Timeline entries that a run or an attempt shows at most. */
const EMBEDDED_EVENTS = 1000;

/** Bytes of messages and payloads that one answer embeds at most, shared evenly by what embeds them. */
export const EMBEDDED_BYTES = 32 * 1024 * 1024;

/** A run with the events that an answer shows of it. */
export interface RunView {
  readonly run: RunRecord;
  /** The newest, oldest first. */
  readonly events: readonly TimelineRow[];
}

/** Reads whole runs as answers show them. */
@Injectable()
export class RunViews {
  constructor(
    private readonly runs: RunRepository,
    private readonly events: EventRepository,
  ) {}

  /** Views of runs by id, with two statements; unknown runs are left out. */
  async read(manager: EntityManager, ids: readonly string[]): Promise<ReadonlyMap<string, RunView>> {
    const records = (await this.runs.findAll(manager, ids)).map(toRunRecord);
    const events = await this.newestEvents(manager, records);
    return new Map(records.map((run) => [run.id, { run, events: events.get(run.id) ?? [] }]));
  }

  /** The newest events of several runs, by the id of the run. */
  async newestEvents(
    manager: EntityManager,
    runs: readonly { readonly id: string; readonly eventCount: number }[],
  ): Promise<ReadonlyMap<string, TimelineRow[]>> {
    const byRun = new Map(runs.map(({ id }) => [id, [] as TimelineRow[]]));
    const ranges = runs
      .filter(({ eventCount }) => eventCount > 0)
      .map(({ id, eventCount }) => newestOf({ runId: id, from: 0, to: eventCount }));
    if (ranges.length === 0) return byRun;
    const events = await this.events.listNewest(manager, ranges, EMBEDDED_BYTES / ranges.length);
    for (const event of events) byRun.get(event.runId)?.push(event);
    return byRun;
  }
}

/** The part of a range that is shown where events are embedded. */
export function newestOf({ runId, from, to }: TimelineRange): TimelineRange {
  return { runId, from: Math.max(from, to - EMBEDDED_EVENTS), to };
}
