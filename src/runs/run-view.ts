import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { EventRepository, type TimelineRange, type TimelineRow } from './event.repository.js';
import { RunRepository } from './run.repository.js';
import { toRunRecord, type RunRecord } from './run-record.js';

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
    const events = new Map(records.map(({ id }) => [id, [] as TimelineRow[]]));
    const ranges = records
      .filter(({ eventCount }) => eventCount > 0)
      .map(({ id, eventCount }) => newestOf({ runId: id, from: 0, to: eventCount }));
    const newest =
      ranges.length === 0
        ? []
        : await this.events.listNewest(manager, ranges, EMBEDDED_BYTES / ranges.length);
    for (const event of newest) events.get(event.runId)?.push(event);
    return new Map(records.map((run) => [run.id, { run, events: events.get(run.id) ?? [] }]));
  }
}

/** The part of a range that is shown where events are embedded. */
export function newestOf({ runId, from, to }: TimelineRange): TimelineRange {
  return { runId, from: Math.max(from, to - EMBEDDED_EVENTS), to };
}
