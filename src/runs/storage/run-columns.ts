import { ExecutionEntity, QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { RunEntity } from '../../database/entities/run.entity.js';
import { EntityTable, type Field } from '../../database/sql/entity-table.js';
import { CHANGING_FIELDS, FIXED_FIELDS, type Run } from '../machine/run.js';

export const RUNS = new EntityTable(RunEntity);

/** The columns of free size. */
export const JSON_FIELDS = [
  'inputs',
  'outputsTemplate',
  'attributes',
  'labels',
  'outputs',
  'options',
  'selector',
] as const;

export const EXECUTIONS = new EntityTable(ExecutionEntity);

export const QUEUE = new EntityTable(QueueEntryEntity);

/** Columns of `runs r` that the state machine reads: the fields of `Run`, except its outputs. */
export const MACHINE_COLUMNS = RUNS.select('r', [...FIXED_FIELDS, ...CHANGING_FIELDS]);

/** Bytes of attributes, and of labels, that are read with every change of their run, at most. */
const FOUND_ATTRIBUTES = 1024;

/** Id of the transaction that wrote the row last. */
export const WRITTEN_BY = 'r.xmin as "writtenBy"';

/** The columns of `FoundRun`. The size of stored attributes tells large ones without reading them. */
export const FOUND_COLUMNS = `${MACHINE_COLUMNS}, ${WRITTEN_BY}, r.attributes is not null as "hasAttributes",
              case when pg_column_size(r.attributes) <= ${FOUND_ATTRIBUTES}
                then case when octet_length(r.attributes::text) <= ${FOUND_ATTRIBUTES} then r.attributes end
              end as attributes,
              case when r.topic is not null then r.name end as "feedName",
              r.topic is not null and r.labels is not null as "hasFeedLabels",
              case when r.topic is not null and pg_column_size(r.labels) <= ${FOUND_ATTRIBUTES} then r.labels end as "feedLabels"`;

export const RECORD_COLUMNS = RUNS.select('r', RUNS.except('size', 'outcome', 'endedWorker', 'request'));

/** Thousandths of a core that a row of `runs` asks for. */
export function cpuMillisColumn(alias: string): string {
  return `coalesce((${alias}.extra_constraints ->> 'cpu_millis')::bigint, ${alias}.cpu * 1000::bigint)`;
}

/** Whole GPUs that a row of `runs` asks for. */
export function gpusColumn(alias: string): string {
  return `coalesce((${alias}.extra_constraints ->> 'gpus')::smallint, 0::smallint)`;
}

/** Bytes of a run in an answer, without its events. */
export const RUN_BYTES = 'r.size + coalesce(octet_length(r.error_message), 0)';

/** Bytes of a run in the answer of a claim, at most. */
export const CLAIM_BYTES = 'r.size + octet_length(r.image)';

/** The columns of `PendingRun`. */
export const PENDING_COLUMNS = `${MACHINE_COLUMNS}, ${WRITTEN_BY}, ${CLAIM_BYTES} as bytes`;

/** Bytes of JSON columns of a row of `runs`, or of values for one. */
export function jsonBytes(alias: string, columns: readonly Field<RunEntity>[]): string {
  return columns
    .map((field) => `coalesce(octet_length(${alias}.${RUNS.column(field)}::text), 0)`)
    .join(' + ');
}

/** Columns of `queue q` that scheduling strategies use. */
export const QUEUE_NOTES = QUEUE.select('q', ['passedOverAt', 'reservedFor']);

/** How statements with a column `sets_outputs` get the outputs of a run: null where no command set them. */
export const OUTPUTS = {
  sets_outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs !== undefined,
  outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs ?? null,
};
