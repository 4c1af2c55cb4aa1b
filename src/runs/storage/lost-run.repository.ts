import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../../database/sql.js';
import { QUEUE, RUNS } from './run-columns.js';

/** A worker that holds runs, by the service's own record. */
export interface Holder {
  readonly workerId: string;
  /** True when it has held one of them for longer than the given time. */
  readonly holdsLong: boolean;
}

/** Some of the workers that hold runs. */
export interface HolderPage {
  /** In the database's order. */
  readonly holders: readonly Holder[];
  /** The database's time when it was asked. */
  readonly now: Date;
  /** Whether nothing was in the queue then. */
  readonly isQueueEmpty: boolean;
}

/** A run in the hands of a worker. */
export interface RunInHands {
  readonly id: string;
  readonly workerId: string;
  readonly attempt: number;
}

/** Which runs in the hands of workers are looked for. */
export interface HeldRunQuery {
  /** Only runs of workers from this one ... */
  readonly first: string;
  /** ... to this one, in the database's order. */
  readonly last: string;
  /** Workers whose runs count when they were assigned before `silentBefore`. */
  readonly silent: readonly string[];
  readonly silentBefore: Date;
  /** The runs of all other workers count when they were assigned before this time. */
  readonly heldBefore: Date;
  /** Only what comes after this run. */
  readonly after?: RunInHands | undefined;
  readonly limit: number;
}

const LEAST_UUID = '00000000-0000-0000-0000-000000000000';

/**
 * SQL that finds runs whose worker may be lost. It reads the index of runs in execution by their worker; runs in
 * nobody's hands are not in there. Nothing is locked: whoever acts on an answer has the machine compare before it sets.
 */
@Injectable()
export class LostRunRepository {
  /**
   * The workers that hold runs. Costs a step in the index for each worker, not for each run.
   * @param after only workers after this one; '' for all
   * @param longMs milliseconds; whatever is held for longer is held long
   */
  async listHolders(
    executor: SqlExecutor,
    after: string,
    longMs: number,
    limit: number,
  ): Promise<HolderPage> {
    const found = await rows<{
      workerId: string | null;
      holdsLong: boolean;
      now: Date;
      isQueueEmpty: boolean;
    }>(
      executor,
      `with recursive holders (worker_id, n) as (
         (select r.worker_id, 1
            from ${RUNS.name} r
           where r.state in ('ASSIGNED', 'RUNNING')
             and r.worker_id > $1::text
           order by r.worker_id
           limit 1)
         union all
         select (select r.worker_id
                   from ${RUNS.name} r
                  where r.state in ('ASSIGNED', 'RUNNING')
                    and r.worker_id > h.worker_id
                  order by r.worker_id
                  limit 1),
                h.n + 1
           from holders h
          where h.worker_id is not null
            and h.n < $3::integer
       ),
       present as materialized (
         select date_trunc('milliseconds', clock_timestamp()) as now
       )
       select h.worker_id as "workerId",
              exists (
                select
                  from ${RUNS.name} r
                 where r.state in ('ASSIGNED', 'RUNNING')
                   and r.worker_id = h.worker_id
                   and r.assigned_at < p.now - make_interval(secs => $2::double precision / 1000)
              ) as "holdsLong",
              p.now,
              not exists (select from ${QUEUE.name}) as "isQueueEmpty"
         from present p
         left join holders h on h.worker_id is not null
        order by h.n`,
      [after, longMs, limit],
    );
    const [first] = found;
    if (!first) throw new Error('the database did not tell the time');
    const holders = found.flatMap(({ workerId, holdsLong }) =>
      workerId === null ? [] : [{ workerId, holdsLong }],
    );
    return { holders, now: first.now, isQueueEmpty: first.isQueueEmpty };
  }

  /** The runs that the query describes, by worker and id. */
  listHeld(executor: SqlExecutor, query: HeldRunQuery): Promise<RunInHands[]> {
    return rows<RunInHands>(
      executor,
      `select ${RUNS.select('r', ['id', 'workerId', 'attempt'])}
         from ${RUNS.name} r
        where r.state in ('ASSIGNED', 'RUNNING')
          and r.worker_id <= $2::text
          and (r.worker_id, r.id) > ($1::text, $3::uuid)
          and r.assigned_at < case when r.worker_id = any($4::text[]) then $5::timestamptz else $6::timestamptz end
        order by r.worker_id, r.id
        limit $7::integer`,
      [
        query.after?.workerId ?? query.first,
        query.last,
        query.after?.id ?? LEAST_UUID,
        query.silent,
        query.silentBefore.toISOString(),
        query.heldBefore.toISOString(),
        query.limit,
      ],
    );
  }
}
