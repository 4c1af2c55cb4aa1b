import { RunEntity } from '../../database/entities/run.entity.js';
import { QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { EntityTable } from '../../database/entity-table.js';

/** The table `runs`. */
export const RUNS = new EntityTable(RunEntity);

/** The table `run_queue`. */
export const QUEUE = new EntityTable(QueueEntryEntity);

/** Columns that the machine decides by: the fields of `Run` but its outputs. */
export const MACHINE_FIELDS = RUNS.except(
  'image',
  'inputs',
  'outputsTemplate',
  'outputs',
  'attributes',
  'definitionId',
  'definitionVersion',
  'traceparent',
  'tracestate',
);

/** {@link MACHINE_FIELDS} of `runs r`. */
export const MACHINE_COLUMNS = RUNS.select('r', MACHINE_FIELDS);

/** All columns of `runs r`. */
export const RECORD_COLUMNS = RUNS.select('r');

/** Columns of `run_queue q` about the choice of runs for claims. */
export const QUEUE_NOTES = QUEUE.select('q', ['passedOverAt', 'reservedFor']);
