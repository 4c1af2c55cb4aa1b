/** Columns of `runs r` that the machine decides by, named as the fields of `Run`. */
export const MACHINE_COLUMNS = `
  r.id, r.state, r.priority, r.progress, r.attempt, r.attempt_id as "attemptId",
  r.first_event as "firstEvent", r.event_count as "eventCount", r.failures, r.reclaims,
  r.max_attempts as "maxAttempts", r.backoff_s as "backoffS", r.max_backoff_s as "maxBackoffS",
  r.start_within_s as "startWithinS", r.attempt_timeout_s as "attemptTimeoutS", r.topic,
  r.ram_mb as "ramMb", r.vram_mb as "vramMb", r.cpu, r.gpu_id as "gpuId", r.worker_id as "workerId",
  r.error_message as "errorMessage", r.queued_at as "queuedAt", r.not_before as "notBefore",
  r.assigned_at as "assignedAt", r.started_at as "startedAt", r.finished_at as "finishedAt",
  r.created_at as "createdAt", r.updated_at as "updatedAt"`;

/** All columns of `runs r`, named as the fields of `RunEntity`. */
export const RECORD_COLUMNS = `${MACHINE_COLUMNS},
  r.image, r.inputs, r.outputs_template as "outputsTemplate", r.outputs, r.attributes,
  r.definition_id as "definitionId", r.definition_version as "definitionVersion",
  r.traceparent, r.tracestate`;
