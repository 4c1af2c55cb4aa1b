import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { currentTime, rows } from '../../database/sql/sql.js';
import type { QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { readIndexesInOrder } from './concurrency-keys.js';
import { PLAIN_LANE } from './lane.js';
import { Pauses, type HoldingPause } from './pauses.js';
import {
  EventRepository,
  type Preparation,
  type Submission,
  type TimelineRange,
  type TimelineRow,
} from '../events/event.repository.js';
import type { QueuedRun } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import type { RunRecord } from '../machine/run.js';
import { isInExecution } from '../machine/run-state.js';
import { listEndedAttempts, type AttemptRow } from '../storage/ended-attempts.js';
import { listAwaited, type AwaitedEnd } from '../storage/groups.js';
import { RunRepository } from '../storage/run.repository.js';

/** Positions in the queue that are counted exactly. */
const MAX_COUNTED = 10_000;

/** Bytes of a timeline entry's message and payload, more than any entry has. */
const ENTRY_BYTES = 64 * 1024 * 1024;

/** Timeline entries among which reports about an attempt that is not running yet are looked for. */
const REPORT_ENTRIES = 200;

const ENTRY_FIELDS = [
  'runId',
  'priority',
  'createdAt',
  'passedOverAt',
  'reservedFor',
  'isAdmitted',
  'isPaused',
] as const;
type QueueEntry = Readonly<Pick<QueueEntryEntity, (typeof ENTRY_FIELDS)[number]>>;

/** A run's row in the queue, and its position. */
export interface QueuePlace extends QueueEntry {
  /** 1 for the head of the queue; 10,000 for every position from there on. */
  readonly position: number;
  readonly isExact: boolean;
}

export interface RunStatus {
  readonly run: RunRecord;
  /** The database's time. */
  readonly now: Date;
  /** Null when the run is not in the queue. */
  readonly place: QueuePlace | null;
  /** The pauses that hold it, by name; empty unless it is PENDING. */
  readonly pausedBy: readonly HoldingPause[];
  /** What it waits for; empty unless it is PENDING. */
  readonly awaited: readonly AwaitedEnd[];
  /** The newest entry of its timeline, if it has ended; else, or without entries, null. */
  readonly lastEvent: TimelineRow | null;
  /** The job of the current attempt, if a launcher has reported one; null unless the run is ASSIGNED or RUNNING. */
  readonly submission: Submission | null;
  /** The newest PREPARING of the current attempt, if the run is ASSIGNED; else, or if there is none, null. */
  readonly preparation: Preparation | null;
  /** The attempt before, while the run is in back-off; else null. */
  readonly failedAttempt: AttemptRow | null;
}

/** Runs before a position, over all lanes, as many as are counted. */
const COUNT_BEFORE = `select count(*)::integer as count
         from (
           select
             from (select '${PLAIN_LANE}'::uuid as id union all select id from lanes) l
            cross join (values (true), (false)) as a (is_admitted)
            cross join lateral (
              (select
                 from queue q
                where q.lane = l.id
                  and q.is_admitted = a.is_admitted
                  and q.priority > $1::integer
                limit $4::integer)
               union all
              (select
                 from queue q
                where q.lane = l.id
                  and q.is_admitted = a.is_admitted
                  and q.priority = $1::integer
                  and (q.created_at, q.run_id) < ($2::timestamptz, $3::uuid)
                limit $4::integer)
            ) one
            limit $4::integer
         ) before`;

/** Reads the queue without locks. */
@Injectable()
export class QueueReader {
  constructor(
    private readonly runs: RunRepository,
    private readonly events: EventRepository,
    private readonly pauses: Pauses,
  ) {}

  /** Must run in a transaction that reads one snapshot. @throws RunNotFound */
  async getStatus(manager: EntityManager, id: string): Promise<RunStatus> {
    const run = await this.runs.get(manager, id);
    const lastEvent = run.finishedAt === null ? null : await this.#findLastEvent(manager, run);
    const submission = await this.#findSubmission(manager, run);
    const isPreparing = run.state === 'ASSIGNED' && run.preparingAt !== null;
    const preparation = isPreparing ? await this.events.findPreparation(manager, newestOf(run)) : null;
    const place = run.state === 'PENDING' ? await this.#findPlace(manager, id) : null;
    const pausedBy = run.state === 'PENDING' ? (await this.pauses.find(manager, [id])).get(id) : undefined;
    const awaited = run.waitsFor === null ? [] : await listAwaited(manager, { run: id });
    const failedAttempt = run.notBefore === null ? null : await this.#findAttemptBefore(manager, run);
    const now = await currentTime(manager);
    const rest = { lastEvent, submission, preparation, failedAttempt };
    return { run, now, place, pausedBy: pausedBy ?? [], awaited, ...rest };
  }

  async listReservedWorkers(manager: EntityManager): Promise<string[]> {
    const found = await rows<{ workerId: string }>(
      manager,
      `select distinct reserved_for as "workerId"
         from queue
        where reserved_for is not null`,
    );
    return found.map(({ workerId }) => workerId);
  }

  /** Ids of those of the runs that wait for others of their concurrency keys. */
  async listHeldBack(manager: EntityManager, runIds: readonly string[]): Promise<string[]> {
    const found = await rows<{ runId: string }>(
      manager,
      `select run_id as "runId"
         from queue
        where run_id = any($1::uuid[])
          and not is_admitted
          and not is_paused`,
      [runIds],
    );
    return found.map(({ runId }) => runId);
  }

  /** The runs that any of the workers is reserved for, in queue order. */
  listReserved(manager: EntityManager, workerIds: readonly string[]): Promise<QueuedRun[]> {
    return rows(
      manager,
      `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
         from queue q
         join ${RUNS.name} r on r.id = q.run_id
        where q.reserved_for is not null
          and q.reserved_for = any($1::text[])
        order by q.priority desc, q.created_at, q.run_id`,
      [workerIds],
    );
  }

  async #findLastEvent(manager: EntityManager, run: RunRecord): Promise<TimelineRow | null> {
    const last = { runId: run.id, from: run.eventCount - 1, to: run.eventCount };
    const [event = null] = await this.events.listPage(manager, last, ENTRY_BYTES);
    return event;
  }

  /** Reports precede most of what a running program adds to the timeline, and follow what was there before. */
  async #findSubmission(manager: EntityManager, run: RunRecord): Promise<Submission | null> {
    const { id: runId, state, workerId, assignedAt, firstEvent } = run;
    if (!isInExecution(state) || workerId === null || assignedAt === null) return null;
    const range =
      state === 'ASSIGNED' ? newestOf(run) : { runId, from: firstEvent, to: firstEvent + REPORT_ENTRIES };
    return this.events.findSubmission(manager, range, assignedAt);
  }

  async #findAttemptBefore(manager: EntityManager, { id, attempt }: RunRecord): Promise<AttemptRow | null> {
    const page = { after: attempt - 2, limit: 1, maxBytes: 0 };
    const { attempts } = await listEndedAttempts(manager, id, page);
    return attempts[0] ?? null;
  }

  async #findPlace(manager: EntityManager, runId: string): Promise<QueuePlace | null> {
    const [entry] = await rows<QueueEntry>(
      manager,
      `select ${QUEUE.select('q', ENTRY_FIELDS)}
         from queue q
        where q.run_id = $1::uuid`,
      [runId],
    );
    if (!entry) return null;
    const params = [entry.priority, entry.createdAt.toISOString(), runId, MAX_COUNTED];
    await readIndexesInOrder(manager);
    const [before] = await rows<{ count: number }>(manager, COUNT_BEFORE, params);
    const count = before?.count ?? 0;
    return { ...entry, position: Math.min(count + 1, MAX_COUNTED), isExact: count < MAX_COUNTED };
  }
}

/** The newest entries of the current attempt. */
function newestOf({ id, firstEvent, eventCount }: RunRecord): TimelineRange {
  return { runId: id, from: Math.max(firstEvent, eventCount - REPORT_ENTRIES), to: eventCount };
}
