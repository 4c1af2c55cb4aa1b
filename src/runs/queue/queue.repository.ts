import { Injectable, Optional } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, unnestRows } from '../../database/sql.js';
import { QueueHeadRepository } from './queue-head.repository.js';
import { LowWaterMarks, WHOLE_QUEUE, type QueueSpot, type QueueStretch } from './low-water-marks.js';
import { queueNews } from './queue-notifications.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import type { Run } from '../machine/run.js';
import type { CandidateQuery, QueuedRun, Reservation, Shape } from '../scheduling-strategy.js';

/** Channel on which runs that became claimable are announced, as queue-news.ts writes them. */
export const QUEUE_CHANNEL = 'longshore_queue';

/** Channel on which workers are announced whose runs have left their hands, by their id. */
export const ROOM_CHANNEL = 'longshore_room';

const UNLIMITED = { cpu: 2 ** 31 - 1, ramMb: 2 ** 31 - 1, vramMb: 2 ** 31 - 1 } as const;

const PLACE = QUEUE.except('passedOverAt', 'reservedFor');
const NEW_ENTRIES = QUEUE.unnest(PLACE);
const PUT = `insert into ${QUEUE.name} (${QUEUE.columns(PLACE)})
       select ${QUEUE.columns(PLACE, 'v')}
         from ${NEW_ENTRIES.sql}
           on conflict (run_id) do update
          set priority = excluded.priority`;

/** SQL of the table `run_queue`: one narrow row per run that may be handed out. Its order: priority descending, age, id. */
@Injectable()
export class QueueRepository {
  readonly #head = new QueueHeadRepository();
  readonly #marks: LowWaterMarks | undefined;
  readonly #removed = new WeakSet<EntityManager>();

  /** @param marks how far the queue is known to be empty; without them every claim looks from the queue's beginning */
  constructor(@Optional() marks?: LowWaterMarks) {
    this.#marks = marks;
  }

  /** Puts pending runs into the queue, or takes over their new priority when they are in it. */
  async put(manager: EntityManager, pending: readonly Run[]): Promise<void> {
    for (const spot of pending) this.#marks?.put(spot);
    await execute(manager, PUT, NEW_ENTRIES.params(pending, { runId: (run) => run.id }));
  }

  /** Takes runs out of the queue. */
  async remove(manager: EntityManager, runIds: readonly string[]): Promise<void> {
    this.#removed.add(manager);
    await execute(
      manager,
      `delete from ${QUEUE.name}
        where run_id = any($1::uuid[])`,
      [runIds],
    );
  }

  /**
   * Has the commit tell every process of runs that have become claimable.
   * @param put the runs that the transaction put into the queue
   * @param count how many of them are still in it
   */
  async announce(manager: EntityManager, put: readonly QueueSpot[], count: number): Promise<void> {
    await execute(manager, `select pg_notify('${QUEUE_CHANNEL}', $1::text)`, [queueNews(count, put)]);
  }

  /** Has the commit tell every process that these workers have got room. */
  async announceRoom(manager: EntityManager, workerIds: readonly string[]): Promise<void> {
    await execute(manager, `select pg_notify('${ROOM_CHANNEL}', id) from unnest($1::text[]) as id`, [
      workerIds,
    ]);
  }

  /** Whether anything is in the queue, be it in the hands of another transaction. */
  async isEmpty(manager: EntityManager): Promise<boolean> {
    const heads = await this.#head.list(manager, this.#stretches, 1);
    return heads.length === 0;
  }

  /**
   * Locks the head of the queue together with its runs. What others hold is passed over, so this never waits and
   * gives `limit` runs whenever that many are free. The queue is looked through from the marks on.
   */
  async lockHead(manager: EntityManager, limit: number): Promise<QueuedRun[]> {
    const marks = this.#marks;
    if (!marks?.areKept) return this.#head.lock(manager, WHOLE_QUEUE, limit);
    // What this transaction has removed comes back if it fails.
    if (marks.isRaiseDue && !this.#removed.has(manager)) {
      await marks.raise((stretches) => this.#head.find(manager, stretches));
    }
    const look = (): Promise<QueuedRun[]> => this.#head.lock(manager, WHOLE_QUEUE, limit);
    let found = marks.isCheckDue
      ? await marks.check(look)
      : await this.#head.lock(manager, this.#stretches, limit);
    if (found.length < limit && marks.mayCheck) found = await marks.check(look);
    marks.see(found);
    return found;
  }

  get #stretches(): readonly QueueStretch[] {
    return this.#marks?.areKept ? this.#marks.stretches : WHOLE_QUEUE;
  }

  /**
   * The parts of the queue that a strategy asks for, and what is reserved for these workers; locks nothing.
   * @param except ids of runs to leave out
   */
  list(
    manager: EntityManager,
    { limit, capacity = [UNLIMITED], free = [], passedOverBefore }: CandidateQuery,
    workerIds: readonly string[],
    except: readonly string[],
  ): Promise<QueuedRun[]> {
    return rows<QueuedRun>(
      manager,
      `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
         from (
           (select c.run_id
              from unnest($2::integer[], $3::integer[], $4::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s')}) c)
            union
           (select c.run_id
              from unnest($5::integer[], $6::integer[], $7::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s')}) c)
            union
           (select c.run_id
              from unnest($2::integer[], $3::integer[], $4::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s', 'and passed_over_at is not null and passed_over_at <= $8::timestamptz')}) c)
            union
           (select run_id
              from ${QUEUE.name}
             where reserved_for is not null
               and reserved_for = any($9::text[]))
         ) c
         join ${QUEUE.name} q on q.run_id = c.run_id
         join ${RUNS.name} r on r.id = q.run_id
        where not q.run_id = any($10::uuid[])
        order by q.priority desc, q.created_at, q.run_id`,
      [
        limit,
        ...columnsOf(capacity),
        ...columnsOf(free),
        passedOverBefore?.toISOString() ?? null,
        workerIds,
        except,
      ],
    );
  }

  /** Locks those of the runs that are still in the queue and in nobody's hands; never waits. */
  lockAll(manager: EntityManager, runIds: readonly string[]): Promise<Run[]> {
    return rows<Run>(
      manager,
      `select ${MACHINE_COLUMNS}
         from ${QUEUE.name} q
         join ${RUNS.name} r on r.id = q.run_id
        where q.run_id = any($1::uuid[])
        order by q.run_id
          for update skip locked`,
      [runIds],
    );
  }

  /** Lets no other transaction hand anything to these workers by what they have left, until this one ends. */
  async lockWorkers(manager: EntityManager, workerIds: readonly string[]): Promise<void> {
    await execute(
      manager,
      `select pg_advisory_xact_lock(key)
         from (
           select distinct hashtextextended(id, 0) as key
             from unnest($1::text[]) as id
            order by 1
         ) keys`,
      [workerIds],
    );
  }

  /** Keeps workers free for runs, or no longer; rows that others hold are left alone. */
  async reserve(manager: EntityManager, reservations: readonly Reservation[]): Promise<void> {
    const source = unnestRows(
      { run_id: 'uuid', worker_id: 'text' },
      reservations.map(({ runId, workerId }) => ({ run_id: runId, worker_id: workerId })),
    );
    await execute(
      manager,
      `with free as (
         select q.run_id, v.worker_id
           from ${QUEUE.name} q
           join ${source.sql} on v.run_id = q.run_id
          order by q.run_id
            for update of q skip locked
       )
       update ${QUEUE.name} q
          set reserved_for = free.worker_id
         from free
        where q.run_id = free.run_id`,
      source.params,
    );
  }

  /** Notes, for runs that have no such note yet, that they have been passed over; rows that others hold are left alone. */
  async notePassedOver(manager: EntityManager, runIds: readonly string[], at: Date): Promise<void> {
    await execute(
      manager,
      `with free as (
         select run_id
           from ${QUEUE.name}
          where run_id = any($1::uuid[])
            and passed_over_at is null
          order by run_id
            for update skip locked
       )
       update ${QUEUE.name} q
          set passed_over_at = $2::timestamptz
         from free
        where q.run_id = free.run_id`,
      [runIds, at.toISOString()],
    );
  }
}

/** The first $1 runs of the queue that ask for no more than the shape. */
function firstWithin(shape: string, condition = ''): string {
  return `select q.run_id
                from ${QUEUE.name} q
               where q.cpu <= ${shape}.cpu
                 and q.ram_mb <= ${shape}.ram_mb
                 and q.vram_mb <= ${shape}.vram_mb
                 ${condition}
               order by priority desc, created_at, run_id
               limit $1::integer`;
}

/** The shapes as one array a resource: cpu, RAM, memory of a GPU. */
function columnsOf(shapes: readonly Shape[]): number[][] {
  return [shapes.map(({ cpu }) => cpu), shapes.map(({ ramMb }) => ramMb), shapes.map(({ vramMb }) => vramMb)];
}
