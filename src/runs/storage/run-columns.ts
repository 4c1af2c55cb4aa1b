import { ExecutionEntity, QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { RunEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import type { Run } from '../machine/run.js';

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
export const MACHINE_COLUMNS = `r.id, r.max_attempts as "maxAttempts", r.backoff_s as "backoffS", r.max_backoff_s as "maxBackoffS",
              r.start_within_s as "startWithinS", r.attempt_timeout_s as "attemptTimeoutS", r.topic, r.vram_mb as "vramMb",
              r.cpu, r.requirement_id as "requirementId", r.concurrency_key as "concurrencyKey",
              r.concurrency_limit as "concurrencyLimit", r.start_at as "startAt", r.retry_on as "retryOn",
              r.created_at as "createdAt", r.schedule_id as "scheduleId", r.group_id as "groupId",
              r.has_sources as "hasSources", r.has_files as "hasFiles", r.ram_mb as "ramMb", r.extra_constraints as "extraConstraints", r.state,
              r.priority, r.progress, r.attempt, r.attempt_id as "attemptId", r.first_event as "firstEvent",
              r.event_count as "eventCount", r.failures, r.reclaims, r.repeated_losses as "repeatedLosses",
              r.loss_worker as "lossWorker", r.gpu_id as "gpuId", r.gpu_ids as "gpuIds", r.worker_id as "workerId",
              r.error_message as "errorMessage", r.cause, r.exit_code as "exitCode", r.cancel_reason as "cancelReason",
              r.avoided_worker as "avoidedWorker", r.note_count as "noteCount", r.note_bytes as "noteBytes",
              r.queued_at as "queuedAt", r.not_before as "notBefore", r.waits_for as "waitsFor", r.dependents, r.reopens,
              r.assigned_at as "assignedAt",
              r.preparing_at as "preparingAt", r.started_at as "startedAt", r.finished_at as "finishedAt",
              r.updated_at as "updatedAt"`;

/** Id of the transaction that wrote the row last. */
export const WRITTEN_BY = 'r.xmin as "writtenBy"';

/** Bytes of attributes, and of labels, that are read with every change of their run, at most. */
const FOUND_ATTRIBUTES = 1024;

/** The columns of `FoundRun`, of `runs r`. The size of stored attributes tells large ones without reading them. */
export const FOUND_COLUMNS = `${MACHINE_COLUMNS}, r.xmin as "writtenBy", r.attributes is not null as "hasAttributes",
                case when pg_column_size(r.attributes) <= ${FOUND_ATTRIBUTES}
                  then case when octet_length(r.attributes::text) <= ${FOUND_ATTRIBUTES} then r.attributes end
                end as attributes,
                case when r.topic is not null then r.name end as "feedName",
                r.topic is not null and r.labels is not null as "hasFeedLabels",
                case when r.topic is not null and pg_column_size(r.labels) <= ${FOUND_ATTRIBUTES} then r.labels end as "feedLabels"`;

/** The columns of `RunRecord`. */
export const RECORD_COLUMNS = `${MACHINE_COLUMNS}, r.image, r.inputs, r.outputs_template as "outputsTemplate", r.outputs, r.name, r.labels,
              r.attributes, r.definition_id as "definitionId", r.definition_version as "definitionVersion", r.options, r.selector,
              r.traceparent, r.tracestate, r.created_by as "createdBy", r.created_by_name as "createdByName", r.rerun_of as "rerunOf", r.reruns,
              r.schedule_time as "scheduleTime", r.group_ref as "groupRef", r.array_index as "arrayIndex", r.array_size as "arraySize",
              r.concurrency_on_limit as "concurrencyOnLimit"`;

/** The columns of `RequiringRun`. */
export const REQUIRING_COLUMNS = `r.selector, r.options, r.cpu, r.vram_mb as "vramMb", r.extra_constraints as "extraConstraints"`;

/** Thousandths of a core that `runs r` asks for. */
export const CPU_MILLIS = `coalesce((r.extra_constraints ->> 'cpu_millis')::bigint, r.cpu * 1000::bigint)`;

/** Whole GPUs that `runs r` asks for. */
export const GPUS = `coalesce((r.extra_constraints ->> 'gpus')::smallint, 0::smallint)`;

/** Bytes of a run in an answer, without its events. */
export const RUN_BYTES = 'r.size + coalesce(octet_length(r.error_message), 0)';

/** The columns of `PendingRun`: `bytes` are those of the run in the answer of a claim, at most. */
export const PENDING_COLUMNS = `${MACHINE_COLUMNS}, r.xmin as "writtenBy", r.size + octet_length(r.image) as bytes`;

/** Columns of `queue q` that scheduling strategies use. */
export const QUEUE_NOTES = `q.passed_over_at as "passedOverAt", q.reserved_for as "reservedFor"`;

/** How statements with a column `sets_outputs` get the outputs of a run: null where no command set them. */
export const OUTPUTS = {
  sets_outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs !== undefined,
  outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs ?? null,
};
