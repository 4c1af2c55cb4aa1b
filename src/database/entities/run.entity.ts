import { Check, Column, Entity, Index, PrimaryColumn, ForeignKey } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** What happens to a new run if its concurrency key has as many open runs as its limit says. */
export type OnLimit = 'queue' | 'skip' | 'cancel_oldest';

/** Labels by key. */
export type Labels = Readonly<Record<string, string>>;

/** How an amount grows, by the names of requests. */
export type AmountGrowth = Readonly<{
  factor: number;
  max: number;
  /** Failures after which it grows, as in `retry_on`; absent: `oom`. */
  on?: string[];
}>;

/** What constraints say beside RAM, GPU memory and whole CPUs, by the names of requests; only what was given. */
export type ExtraConstraints = Readonly<{
  cpu_millis?: number;
  cpu_limit_millis?: number;
  gpus?: number;
  gpu_selector?: string[];
  shm_mb?: number;
  /** Of the retry policy: what has grown since is in columns. */
  grow?: Readonly<{ ram_mb: AmountGrowth }>;
  /** What the run asked for at first, and the attempts whose failures made it grow; absent before the first of them. */
  grown?: Readonly<{ ram_mb: number; failures: number }>;
}>;

/** What the row of a run does not tell of the request that created it. */
export type RunRequestCopy = Readonly<{
  /** Fields of its body that the run has in another form, or merged with those of its definition; absent: none. */
  body?: JsonObject;
  /** Names of the inputs that the definition filled in; absent: none. */
  filled?: string[];
  /** When the version of the definition was stored of which the run was made, in ms since 1970; absent: of none. */
  definition_updated_at?: number;
}>;

/** A row of `runs`: the run together with its current attempt. */
@Entity('runs')
@Check('runs_attempt_check', 'attempt between 1 and 1000')
@Check('runs_attempt_timeout_s_check', 'attempt_timeout_s >= 1')
@Check('runs_back_off_while_pending', "not_before is null or state = 'PENDING'")
@Check('runs_backoff_s_check', 'backoff_s >= 0')
@Check('runs_check', 'first_event between 0 and event_count')
@Check('runs_cpu_check', 'cpu >= 0')
@Check(
  'runs_ended_worker_check',
  'ended_worker is not distinct from case when finished_at is not null then worker_id end',
)
@Check('runs_failures_check', 'failures >= 0')
@Check(
  'runs_finished_when_terminal',
  "(state in ('CANCELLED', 'COMPLETED', 'FAILED')) = (finished_at is not null)",
)
@Check('runs_max_attempts_check', 'max_attempts between 1 and 1000')
@Check('runs_max_backoff_s_check', 'max_backoff_s >= 0')
@Check('runs_outcome_check', "outcome = case when finished_at is null then 'OPEN' else state end")
@Check('runs_pending_belongs_to_nobody', "state <> 'PENDING' or worker_id is null")
@Check('runs_progress_check', 'progress between 0 and 100')
@Check('runs_ram_mb_check', 'ram_mb >= 0')
@Check('runs_reclaims_check', 'reclaims >= 0')
@Check('runs_repeated_losses_check', 'repeated_losses between 0 and reclaims')
@Check('runs_schedule_check', '(schedule_id is null) = (schedule_time is null)')
@Check('runs_start_within_s_check', 'start_within_s >= 1')
@Check('runs_state_check', "state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')")
@Check('runs_array_check', '(array_index is null) = (array_size is null)')
@Check('runs_waits_for_check', 'waits_for is null or not_before is not null')
@Check('runs_vram_mb_check', 'vram_mb >= 0')
@Index('runs_by_cause', { synchronize: false })
@Index('runs_by_concurrency_key', { synchronize: false })
@Index('runs_by_creator', { synchronize: false })
@Index('runs_by_definition', { synchronize: false })
@Index('runs_by_array', ['groupId', 'arrayIndex'], { unique: true, where: '(array_index IS NOT NULL)' })
@Index('runs_by_definition_and_image', { synchronize: false })
@Index('runs_by_end', ['outcome', 'finishedAt', 'createdAt'], {
  where: `((finished_at - created_at) > '00:00:10'::interval)`,
})
@Index('runs_by_exit_code', { synchronize: false })
@Index('runs_by_group', ['groupId', 'outcome', 'createdAt', 'id'], { where: '(group_id IS NOT NULL)' })
@Index('runs_by_image', { synchronize: false })
@Index('runs_by_name', { synchronize: false })
@Index('runs_by_outcome', { synchronize: false })
@Index('runs_by_rerun', { synchronize: false })
@Index('runs_by_schedule', ['scheduleId', 'outcome', 'createdAt', 'id'], {
  where: '(schedule_id IS NOT NULL)',
})
@Index('runs_by_topic', { synchronize: false })
@Index('runs_by_topic_and_definition', { synchronize: false })
@Index('runs_by_topic_and_image_hash', { synchronize: false })
@Index('runs_by_worker', { synchronize: false })
@Index('runs_to_resolve', ['id'], { where: '(waits_for = 0)' })
@Index('runs_waiting', ['notBefore', 'waitsFor'], { where: '(not_before IS NOT NULL)' })
export class RunEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'runs_pkey' }) id: string;
  @Column('text') state: string;
  /** The state of an ended run; `OPEN` before. It stands in the indexes of lists instead of the state, which changes more often. */
  @Column('text', { default: 'OPEN' }) outcome: string;
  @Column('integer') priority: number;
  /** 0-100. */
  @Column('smallint') progress: number;
  /** Number of the current attempt, from 1. */
  @Column('integer') attempt: number;
  @Column('uuid', { name: 'attempt_id' }) attemptId: string;
  /** Index of the first timeline entry of the current attempt. */
  @Column('integer', { name: 'first_event' }) firstEvent: number;
  /** Number of timeline entries; also the index of the next one. */
  @Column('integer', { name: 'event_count' }) eventCount: number;
  /** Number of attempts that ended by FAILED. */
  @Column('integer') failures: number;
  /** Attempts in a row that ended by the loss of their worker or a failure of the infrastructure. */
  @Column('integer') reclaims: number;
  /** Those of them that ended with the worker of the one before. */
  @Column('integer', { name: 'repeated_losses', default: 0 }) repeatedLosses: number;
  @Column('integer', { name: 'max_attempts' }) maxAttempts: number;
  /** Back-off after the first failure in seconds, doubled with each further failure. 0: none. */
  @Column('integer', { name: 'backoff_s', default: 0 }) backoffS: number;
  /** Upper bound of the back-off in seconds. 0: only the general bound of a day. */
  @Column('integer', { name: 'max_backoff_s', default: 0 }) maxBackoffS: number;
  /** Start timeout: seconds from when an attempt can be claimed. null: none. */
  @Column('integer', { name: 'start_within_s', nullable: true }) startWithinS: number | null;
  /** Attempt timeout: seconds from the start of an attempt. null: none. */
  @Column('integer', { name: 'attempt_timeout_s', nullable: true }) attemptTimeoutS: number | null;
  @Column('text') image: string;
  @Column('json') inputs: JsonObject;
  @Column('json', { name: 'outputs_template' }) outputsTemplate: JsonObject;
  /** null: the template. */
  @Column('json', { nullable: true }) outputs: JsonObject | null;
  @Column('text', { nullable: true }) name: string | null;
  /** null: none. */
  @Column('json', { nullable: true }) labels: Labels | null;
  /** Of the current attempt. */
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  /** null: none is given. */
  @Column('json', { name: 'extra_constraints', nullable: true }) extraConstraints: ExtraConstraints | null;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  /** Ids of several GPUs, joined by commas, of which `gpuId` is the first; null: no list is known. */
  @Column('text', { name: 'gpu_ids', nullable: true }) gpuIds: string | null;
  @Column('text', { nullable: true }) topic: string | null;
  @Column('json', { nullable: true }) attributes: Record<string, string> | null;
  @Column('text', { name: 'definition_id', nullable: true }) definitionId: string | null;
  @Column('text', { name: 'definition_version', nullable: true }) definitionVersion: string | null;
  /** Options that only the worker reads, by their names in requests; null: none is set. */
  @Column('json', { nullable: true }) options: JsonObject | null;
  /** Tags that a worker must have; null: none. */
  @Column('json', { nullable: true }) selector: readonly string[] | null;
  /** Id of the run's requirements on workers; null: any worker may get it. */
  @Column('uuid', { name: 'requirement_id', nullable: true }) requirementId: string | null;
  @Column('text', { name: 'concurrency_key', nullable: true }) concurrencyKey: string | null;
  /** Runs with the key that may be in execution for this run to be assigned, itself included; null exactly without a key. */
  @Column('integer', { name: 'concurrency_limit', nullable: true }) concurrencyLimit: number | null;
  /** What happens to the run if the key has as many open runs when it is created; null: it waits. */
  @Column('text', { name: 'concurrency_on_limit', nullable: true }) concurrencyOnLimit: OnLimit | null;
  /** Not assigned before; null: at any time. */
  @Column({ type: 'timestamptz', precision: 3, name: 'start_at', nullable: true }) startAt: Date | null;
  /** Failures that are retried, as in requests and joined by commas; null: all. */
  @Column('text', { name: 'retry_on', nullable: true }) retryOn: string | null;
  /** Value of the request header of this name; null: the run is not traced. */
  @Column('text', { nullable: true }) traceparent: string | null;
  @Column('text', { nullable: true }) tracestate: string | null;
  /** Id of the API key that created it (`Caller.keyId`); null: the service itself. */
  @Column('uuid', { name: 'created_by', nullable: true }) createdBy: string | null;
  /** Name of that key when it created the run; null exactly without a key. */
  @Column('text', { name: 'created_by_name', nullable: true }) createdByName: string | null;
  /** Id of the run that it repeats, which may have been removed; null: none. */
  @Column('uuid', { name: 'rerun_of', nullable: true }) rerunOf: string | null;
  /** Runs that repeat it, those that have been removed included; null: none. A trigger counts them. */
  @Column('integer', { nullable: true }) reruns: number | null;
  /** Schedule that made it, which may have been removed; null: none. */
  @Column('text', { name: 'schedule_id', nullable: true }) scheduleId: string | null;
  /** Its time by the schedule, in the zone of the schedule and with its offset, to the second; null exactly without a schedule. */
  @Column('text', { name: 'schedule_time', nullable: true }) scheduleTime: string | null;
  /** Group that it is a member of, which may have been removed; null: none. */
  @Column('uuid', { name: 'group_id', nullable: true }) groupId: string | null;
  /** Its name in the group; null: it has none, as in an array. */
  @Column('text', { name: 'group_ref', nullable: true }) groupRef: string | null;
  /** Its place in the array, from 0; null: its group is none. */
  @Column('integer', { name: 'array_index', nullable: true }) arrayIndex: number | null;
  /** Members of the array; null exactly without an index. */
  @Column('integer', { name: 'array_size', nullable: true }) arraySize: number | null;
  /** True: inputs are still to be read from outputs of runs that it waits for; null: none are. */
  @Column('boolean', { name: 'has_sources', nullable: true }) hasSources: boolean | null;
  /** True: it gets or leaves files, which are in a store; null: it does not. */
  @Column('boolean', { name: 'has_files', nullable: true }) hasFiles: boolean | null;
  /** Runs and groups that must end before it is claimable; 0: they have ended, its inputs are to be read; null: none. */
  @Column('integer', { name: 'waits_for', nullable: true }) waitsFor: number | null;
  /** How many times a run or an array was made that waits for it; null: never. */
  @Column('integer', { nullable: true }) dependents: number | null;
  /** True: if it completes, the runs are opened again that its earlier end cancelled; null: they are not. */
  @Column('boolean', { nullable: true }) reopens: boolean | null;
  /** What a rerun cannot read from the other columns; null: nothing. Only reruns read it. */
  @Column('json', { nullable: true }) request: RunRequestCopy | null;
  @Column('text', { name: 'worker_id', nullable: true }) workerId: string | null;
  @Column('text', { name: 'error_message', nullable: true }) errorMessage: string | null;
  /** Why the current attempt failed, or why the service cancelled the run; null: neither, or its worker was lost. */
  @Column('text', { nullable: true }) cause: string | null;
  /** With which the container of the failed attempt ended; null: unknown. */
  @Column('smallint', { name: 'exit_code', nullable: true }) exitCode: number | null;
  /** Why the run was cancelled, as the caller or the service said; null: nobody said. */
  @Column('text', { name: 'cancel_reason', nullable: true }) cancelReason: string | null;
  /** Worker on which the attempt before failed by a fault of the infrastructure; null: none. */
  @Column('text', { name: 'avoided_worker', nullable: true }) avoidedWorker: string | null;
  /** Worker of the last of the losses in a row; null: there is none, or it is unknown. */
  @Column('text', { name: 'loss_worker', nullable: true }) lossWorker: string | null;
  /** Events of the current attempt that change no state, those that were not recorded included. */
  @Column('integer', { name: 'note_count', default: 0 }) noteCount: number;
  /** Bytes of messages and payloads of these events; it stops at the largest integer. */
  @Column('integer', { name: 'note_bytes', default: 0 }) noteBytes: number;
  /** Bytes of the JSON columns: inputs, outputs, their template, attributes, labels, options and selector. */
  @Column('integer') size: number;
  /** When the current attempt entered the queue. */
  @Column({ type: 'timestamptz', precision: 3, name: 'queued_at' }) queuedAt: Date;
  /** End of the back-off of a pending run, `HELD` of one that waits for another run; null: neither. */
  @Column({ type: 'timestamptz', precision: 3, name: 'not_before', nullable: true }) notBefore: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  /** When the worker of the current attempt began to prepare it; null: it has not said so. */
  @Column({ type: 'timestamptz', precision: 3, name: 'preparing_at', nullable: true })
  preparingAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'started_at', nullable: true }) startedAt: Date | null;
  /** Not null exactly in terminal states. */
  @Column({ type: 'timestamptz', precision: 3, name: 'finished_at', nullable: true }) finishedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  /** Of an ended run, the worker that it belonged to: `worker_id` changes too often to stand in an index. null: it has not ended, or had none. */
  @Column('text', { name: 'ended_worker', nullable: true }) endedWorker: string | null;
  /** Never before the time of the newest timeline entry. */
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
}

/** A row of `run_terms`: a tag of a run's selector or a label, with what lists need of the run. Triggers on `runs` keep it. */
@Entity('run_terms')
@Index('run_terms_in_lists', { synchronize: false })
export class RunTermEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_terms_pkey' }) runId: string;
  /** `selector:TAG`, `label:KEY` or `label:KEY=VALUE`. */
  @PrimaryColumn('text', { primaryKeyConstraintName: 'run_terms_pkey' }) term: string;
  @Column('text') outcome: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
}

/** A row of `attempts`: an attempt that ended and was followed by another. */
@Entity('attempts')
@Check('attempts_check', 'end_event >= first_event')
@Check('attempts_progress_check', 'progress between 0 and 100')
@Check(
  'attempts_state_check',
  "state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')",
)
export class AttemptEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'attempts_pkey' })
  @ForeignKey(() => RunEntity, { name: 'attempts_run_id_fkey', onDelete: 'CASCADE' })
  runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'attempts_pkey' }) attempt: number;
  @Column('uuid') id: string;
  @Column('text') state: string;
  @Column('smallint') progress: number;
  /** null: the run's template. */
  @Column('json', { nullable: true }) outputs: JsonObject | null;
  /** Bytes of the outputs as JSON. */
  @Column('integer') size: number;
  /** null: that of the run, which never grows. */
  @Column('integer', { name: 'ram_mb', nullable: true }) ramMb: number | null;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  @Column('text', { name: 'gpu_ids', nullable: true }) gpuIds: string | null;
  @Column('text', { name: 'worker_id', nullable: true }) workerId: string | null;
  @Column('text', { name: 'error_message', nullable: true }) errorMessage: string | null;
  /** See the columns of `runs`. */
  @Column('text', { nullable: true }) cause: string | null;
  @Column('smallint', { name: 'exit_code', nullable: true }) exitCode: number | null;
  @Column('text', { name: 'cancel_reason', nullable: true }) cancelReason: string | null;
  @Column('integer', { name: 'first_event' }) firstEvent: number;
  /** Index after the attempt's last timeline entry. */
  @Column('integer', { name: 'end_event' }) endEvent: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'queued_at' }) queuedAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'started_at', nullable: true }) startedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'finished_at' }) finishedAt: Date;
}

/** A row of `events`: an entry of a run's timeline. */
@Entity('events')
@Check('events_index_check', '"index" >= 0')
@Check('events_size_check', 'size >= 0')
@Index('events_by_commit', ['commitOrder', 'runId', 'index'])
export class EventEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'events_pkey' }) runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'events_pkey' }) index: number;
  @Column('integer') attempt: number;
  @Column('text') type: string;
  /** State of the run after the command that recorded the entry. */
  @Column('text') state: string;
  @Column({ type: 'timestamptz', precision: 3 }) t: Date;
  @Column('json') msg: string | number;
  @Column('json') payload: JsonObject;
  /** Bytes of message and payload as JSON. */
  @Column('integer') size: number;
  /** Place in the order of all events, see the function `next_commit_order` of the schema. A bigint as decimal string. */
  @Column('bigint', { name: 'commit_order', default: () => 'next_commit_order()' }) commitOrder: string;
  /** Id of the API key that sent it (`Caller.keyId`); null for events that the service records by itself. */
  @Column('uuid', { nullable: true }) sender: string | null;
}

/**
 * A row of `run_counts`: changes of the counts of runs that one connection committed in one second, or a sum of such
 * rows. Each count is a bigint as decimal string.
 */
@Entity('run_counts')
export class RunCountsEntity {
  @PrimaryColumn('timestamptz', { primaryKeyConstraintName: 'run_counts_pkey' }) since: Date;
  /** Process id of the connection's backend; 0 for sums. */
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_counts_pkey' }) slot: number;
  @Column('bigint') created: string;
  @Column('bigint', { name: 'ended_cancelled' }) endedCancelled: string;
  @Column('bigint', { name: 'ended_completed' }) endedCompleted: string;
  @Column('bigint', { name: 'ended_failed' }) endedFailed: string;
  @Column('bigint') pending: string;
  @Column('bigint') assigned: string;
  @Column('bigint') running: string;
  @Column('bigint') cancelled: string;
  @Column('bigint') completed: string;
  @Column('bigint') failed: string;
}

/** A row of `idempotency_keys`: the result of a request that carried a key. */
@Entity('idempotency_keys')
@Index('idempotency_keys_by_created', ['createdAt'])
export class IdempotencyKeyEntity {
  /** Digest of the key and of what it applies to. */
  @PrimaryColumn('text', { primaryKeyConstraintName: 'idempotency_keys_pkey' }) scope: string;
  @Column('text', { name: 'request_hash' }) requestHash: string;
  /** The run that the request created or changed, or the bulk operation that it started; null for a claim. */
  @Column('uuid', { name: 'run_id', nullable: true }) runId: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  /** Runs that a claim returned; null for other requests. */
  @Column('uuid', { array: true, nullable: true }) claimed: string[] | null;
}
