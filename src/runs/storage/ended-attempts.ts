import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';
import type { EndedAttempt, RunRecord } from '../machine/run.js';
import { jsonBytes, OUTPUTS, RUN_BYTES, RUNS } from './run-columns.js';

export type AttemptRow = Omit<AttemptEntity, 'state' | 'size' | 'cause'> & Pick<RunRecord, 'state' | 'cause'>;

const ATTEMPTS = new EntityTable(AttemptEntity);
const COPIED = ATTEMPTS.except('outputs', 'size');
const ENDED = ATTEMPTS.unnest(ATTEMPTS.except('size'), { extra: { sets_outputs: 'boolean' } });
const INSERT_ATTEMPTS = `insert into ${ATTEMPTS.name} (${ATTEMPTS.columns(COPIED)}, outputs, size)
       select ${ATTEMPTS.columns(COPIED, 'v')},
              case when v.sets_outputs then v.outputs else r.outputs end,
              case when v.sets_outputs then ${jsonBytes('v', ['outputs'])} else ${jsonBytes('r', ['outputs'])} end
         from ${ENDED.sql}
         join ${RUNS.name} r on r.id = v.run_id`;

/** A part of the attempts of a run. */
export interface AttemptPage {
  /** Number of the attempt after which it starts; 0: at the first. */
  readonly after: number;
  readonly limit: number;
  readonly maxBytes: number;
}

/** Writes ended attempts. Must precede the update of the runs: outputs that no command set are copied from the run's row. */
export async function insertAttempts(manager: EntityManager, ended: readonly EndedAttempt[]): Promise<void> {
  await execute(manager, INSERT_ATTEMPTS, ENDED.params(ended, OUTPUTS));
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
                      + (select ${RUN_BYTES} from ${RUNS.name} r where r.id = $1::uuid) as bytes
               from ${ATTEMPTS.name} a
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
