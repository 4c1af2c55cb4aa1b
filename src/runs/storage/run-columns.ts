import { QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { RunEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { CHANGING_FIELDS, FIXED_FIELDS } from '../machine/run.js';

export const RUNS = new EntityTable(RunEntity);

export const QUEUE = new EntityTable(QueueEntryEntity);

/** Columns of `runs r` that the state machine reads: the fields of `Run`, except its outputs. */
export const MACHINE_COLUMNS = RUNS.select('r', [...FIXED_FIELDS, ...CHANGING_FIELDS]);

export const RECORD_COLUMNS = RUNS.select('r');

/** Columns of `run_queue q` that scheduling strategies use. */
export const QUEUE_NOTES = QUEUE.select('q', ['passedOverAt', 'reservedFor']);
