import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { EventRepository, type TimelineRange, type TimelineRow } from '../events/event.repository.js';
import { RunRepository } from './run.repository.js';
import type { RunRecord } from '../machine/run.js';

/** Timeline entries in the response of a run or an attempt, at most. */
const EMBEDDED_EVENTS = 1000;

/** Answers of the largest size that the commands of one group may have together. */
const ANSWERS_OF_A_GROUP = 4;

/** Bytes of runs that one group reads for its claims, and for its other commands, unless the first answer has more. */
export function bytesOfGroup(maxAnswerBytes: number): number {
  return ANSWERS_OF_A_GROUP * maxAnswerBytes;
}

/** A run with the events in its response. */
export interface RunView {
  readonly run: RunRecord;
  /** The newest, oldest first. */
  readonly events: readonly TimelineRow[];
}

@Injectable()
export class RunViews {
  /** Bytes of runs or attempts in one answer, and of their events. */
  readonly maxBytes: number;

  constructor(
    private readonly runs: RunRepository,
    private readonly events: EventRepository,
    @Inject(Settings) { maxAnswerBytes }: Pick<Settings, 'maxAnswerBytes'>,
  ) {
    this.maxBytes = maxAnswerBytes;
  }

  /**
   * Views of runs by id, with two statements. Left out are unknown runs, and those that follow runs of `maxBytes`
   * without their events; at least one is read.
   */
  async read(
    manager: EntityManager,
    ids: readonly string[],
    maxBytes: number,
  ): Promise<ReadonlyMap<string, RunView>> {
    const records = await this.runs.findFirst(manager, ids, maxBytes);
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
    for (const event of await this.listNewest(manager, ranges)) byRun.get(event.runId)?.push(event);
    return byRun;
  }

  /** The newest events of ranges, which share the bytes of an answer evenly. */
  async listNewest(manager: EntityManager, ranges: readonly TimelineRange[]): Promise<TimelineRow[]> {
    return ranges.length === 0 ? [] : this.events.listNewest(manager, ranges, this.maxBytes / ranges.length);
  }
}

/** The part of a range that is embedded in a response. */
export function newestOf({ runId, from, to }: TimelineRange): TimelineRange {
  return { runId, from: Math.max(from, to - EMBEDDED_EVENTS), to };
}
