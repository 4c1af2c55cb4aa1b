import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { currentTime } from '../../database/sql.js';
import { EventRepository, type TimelineRow } from '../events/event.repository.js';
import { QueueStandingRepository, type QueueRow } from './queue-standing.repository.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../storage/run.reader.js';
import { RunRepository } from '../storage/run.repository.js';
import { toRunRecord, type RunRecord } from '../storage/run-record.js';
import type { QueuedRun } from '../scheduling-strategy.js';

/** Places in the queue that are counted exactly. */
const MOST_COUNTED = 10_000;

/** Bytes of a timeline entry's message and payload, more than any entry has. */
const ENTRY_BYTES = 64 * 1024 * 1024;

/** Where a run is in the queue. */
export interface QueuePlace extends QueueRow {
  /** 1 for the head of the queue; 10,000 for every place from there on. */
  readonly position: number;
  readonly isExact: boolean;
}

/** Where a run stands. */
export interface RunStanding {
  readonly run: RunRecord;
  /** The database's time. */
  readonly now: Date;
  /** Null when the run is not in the queue. */
  readonly place: QueuePlace | null;
  /** The newest entry of its timeline; null when there is none. */
  readonly lastEvent: TimelineRow | null;
}

/** Reads where runs stand. */
@Injectable()
export class RunStandingReader {
  constructor(
    private readonly runs: RunRepository,
    private readonly queue: QueueStandingRepository,
    private readonly events: EventRepository,
  ) {}

  /**
   * Where the run stands; to be read in a transaction that sees one state of the database.
   * @throws RunNotFound
   */
  async read(manager: EntityManager, id: string): Promise<RunStanding> {
    const row = isRunId(id) ? await this.runs.find(manager, id) : null;
    if (!row) throw new RunNotFound(id);
    const run = toRunRecord(row);
    const last = { runId: id, from: run.eventCount - 1, to: run.eventCount };
    const [lastEvent = null] = await this.events.listPage(manager, last, ENTRY_BYTES);
    return { run, now: await currentTime(manager), place: await this.#place(manager, run), lastEvent };
  }

  /** The runs that any of the workers is kept free for, in the order of the queue. */
  listReserved(manager: EntityManager, workerIds: readonly string[]): Promise<QueuedRun[]> {
    return this.queue.listReserved(manager, workerIds);
  }

  async #place(manager: EntityManager, { id, state }: RunRecord): Promise<QueuePlace | null> {
    const row = state === 'PENDING' ? await this.queue.find(manager, id) : null;
    if (!row) return null;
    const before = await this.queue.countBefore(manager, row, MOST_COUNTED);
    return { ...row, position: Math.min(before + 1, MOST_COUNTED), isExact: before < MOST_COUNTED };
  }
}
