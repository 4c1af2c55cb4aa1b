import type { UnnestColumns } from '../../database/sql/sql.js';
import { CHANGING_FIELDS, GROWING_FIELDS, type ChangingField } from '../machine/run.js';
import { RUNS } from './run-columns.js';

/** A statement that changes runs, and its parameters. */
interface Update {
  readonly source: UnnestColumns<string>;
  readonly sql: string;
}

/** By `ctid`: a join may read the whole index, with all rows that vacuum could not remove yet. */
const LEAVE_EXECUTION = `,
       ended as (
         delete from executions
          where ctid = any(array(
                  select (select e.ctid
                            from executions e
                           where e.worker_id = v.left_worker
                             and e.run_id = v.id)
                    from v
                ))
       )`;

/** @param worker where the worker of the run stands */
const setOutcome = (worker: string): string => `,
              outcome = case when v.finished_at is null then 'OPEN' else v.state end,
              ended_worker = case when v.finished_at is not null then ${worker} end`;
const SET_OUTPUTS = `,
              outputs = case when v.sets_outputs then v.outputs else r.outputs end,
              size = case
                when v.sets_outputs then r.size + coalesce(octet_length(v.outputs::text), 0) - coalesce(octet_length(r.outputs::text), 0)
                else r.size
              end`;

/**
 * Sets of fields that groups change, the smallest first: notes; starts and ends of attempts; all events of an attempt; everything
 * of runs that do not grow. Each has two statements of its own, because columns that do not change cost time in both processes: they
 * are composed, since one that is written out would send all columns, and ten would repeat them.
 */
const CHANGE_SETS: readonly (readonly ChangingField[])[] = [
  ['progress', 'eventCount', 'noteCount', 'noteBytes', 'updatedAt'],
  ['state', 'progress', 'eventCount', 'startedAt', 'finishedAt', 'updatedAt'],
  [
    ...([
      'state',
      'progress',
      'eventCount',
      'noteCount',
      'noteBytes',
      'workerId',
      'gpuId',
      'gpuIds',
    ] as const),
    ...(['assignedAt', 'startedAt', 'finishedAt', 'updatedAt'] as const),
  ],
  CHANGING_FIELDS.filter((field) => GROWING_FIELDS.every((growing) => growing !== field)),
  CHANGING_FIELDS,
];
const UPDATES = CHANGE_SETS.map((fields) => {
  const changesState = fields.includes('state');
  const outcome = changesState ? setOutcome(fields.includes('workerId') ? 'v.worker_id' : 'r.worker_id') : '';
  const given = ['id', ...fields] as const;
  const ends: Readonly<Record<string, string>> = changesState ? { left_worker: 'text' } : {};
  const extra = { ...ends, written_by: 'xid' };
  const statement = (source: UnnestColumns<string>, outputs = ''): Update => ({
    source,
    sql: `with v as materialized (
         select *
           from ${source.sql}
       )${changesState ? LEAVE_EXECUTION : ''},
       written as (
         update runs r
            set ${RUNS.set(fields, 'v')}${outcome}${outputs}
           from v
          where r.id = v.id
            and r.xmin = v.written_by
      returning 1
       )
       select require_all_written((select count(*) from written), (select count(*) from v))`,
  });
  return {
    fields: new Set(fields),
    plain: statement(RUNS.unnest(given, { extra })),
    withOutputs: statement(
      RUNS.unnest([...given, 'outputs'], { extra: { ...extra, sets_outputs: 'boolean' } }),
      SET_OUTPUTS,
    ),
  };
});

/** The smallest statement that changes these fields of runs that nobody else has written, and their outputs if they are set. */
export function updateOf(fields: ReadonlySet<ChangingField>, setsOutputs: boolean): Update {
  const update = UPDATES.find((one) => [...fields].every((field) => one.fields.has(field)));
  if (update === undefined) throw new Error('no statement changes all of these fields');
  return setsOutputs ? update.withOutputs : update.plain;
}
