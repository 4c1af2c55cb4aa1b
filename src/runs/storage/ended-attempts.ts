import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, RowArrays, rows } from '../../database/sql/sql.js';
import type { EndedAttempt, RunRecord } from '../machine/run.js';
import { OUTPUTS, RUN_BYTES } from './run-columns.js';

export type AttemptRow = Omit<AttemptEntity, 'state' | 'size' | 'cause'> & Pick<RunRecord, 'state' | 'cause'>;

const ATTEMPTS = new EntityTable(AttemptEntity);
const GIVEN = `run_id, attempt, id, state, progress, ram_mb, gpu_id, gpu_ids, worker_id, error_message, cause, exit_code, cancel_reason,
         first_event, end_event, queued_at, assigned_at, started_at, finished_at, outputs`;
const INSERT = `insert into attempts (${GIVEN}, size)
       select v.run_id, v.attempt, v.id, v.state, v.progress, v.ram_mb, v.gpu_id, v.gpu_ids, v.worker_id, v.error_message, v.cause,
              v.exit_code, v.cancel_reason, v.first_event, v.end_event, v.queued_at, v.assigned_at, v.started_at, v.finished_at,
              case when v.sets_outputs then v.outputs else r.outputs end,
              coalesce(octet_length(case when v.sets_outputs then v.outputs::text else r.outputs::text end), 0)
         from unnest(
                $1::uuid[], $2::integer[], $3::uuid[], $4::text[], $5::smallint[], $6::integer[], $7::integer[], $8::text[], $9::text[],
                $10::text[], $11::text[], $12::smallint[], $13::text[], $14::integer[], $15::integer[], $16::timestamptz[],
                $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::json[], $21::boolean[]
              ) as v (${GIVEN}, sets_outputs)
         join runs r on r.id = v.run_id`;
const ENDED = RowArrays.of<keyof EndedAttempt | 'setsOutputs'>(INSERT);

/** A part of the attempts of a run. */
export interface AttemptPage {
  /** Number of the attempt after which it starts; 0: at the first. */
  readonly after: number;
  readonly limit: number;
  readonly maxBytes: number;
}

/** Writes ended attempts. Must precede the update of the runs: outputs that no command set are copied from the run's row. */
export async function insertAttempts(manager: EntityManager, ended: readonly EndedAttempt[]): Promise<void> {
  await execute(
    manager,
    INSERT,
    ENDED.params(ended, { outputs: OUTPUTS.outputs, setsOutputs: OUTPUTS.sets_outputs }),
  );
}

/**
 * Attempts of a run before the current one, oldest first: those after a number, up to `limit`, and as many as come to
 * `maxBytes` with what an answer repeats of the run for each; the first is read whatever its size.
 */
export async function listEndedAttempts(
  manager: EntityManager,
  runId: string,
  { after, limit, maxBytes }: AttemptPage,
): Promise<{ readonly attempts: AttemptRow[]; readonly hasMore: boolean }> {
  const found = await rows<AttemptRow & { readonly found: string }>(
    manager,
    `select ${ATTEMPTS.select('a', ATTEMPTS.except('size'))}, a.found
       from (
         select b.*,
                count(*) over () as found,
                sum(b.bytes) over walk as bytes_so_far,
                row_number() over walk as nth
           from (
             select a.*,
                    a.size
                      + coalesce(octet_length(a.error_message), 0)
                      + (select ${RUN_BYTES} from runs r where r.id = $1::uuid) as bytes
               from attempts a
              where a.run_id = $1::uuid
                and a.attempt > $2::integer
              order by a.attempt
              limit $3::integer + 1
           ) b
         window walk as (order by b.attempt rows unbounded preceding)
       ) a
      where a.bytes_so_far <= $4::bigint or a.nth = 1
      order by a.attempt
      limit $3::integer`,
    [runId, after, limit, maxBytes],
  );
  return {
    attempts: found,
    hasMore: Number(found[0]?.found ?? 0) > found.length,
  };
}
