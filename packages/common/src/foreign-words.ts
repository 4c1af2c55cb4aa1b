import { plainName } from './nearest-name.js';

/** Where what other systems call by some words is here. */
export interface ForeignWords {
  /** The names of fields and flags in Docker, Kubernetes, Slurm, AWS Batch, Nomad, Airflow, Prefect and Hatchet, as they write them. */
  readonly there: readonly string[];
  /** The field of a run's or a definition's body, with the objects around it; null: there is none. */
  readonly field: string | null;
  /** What else there is to know. */
  readonly note?: string;
}

const NOT_POSSIBLE = 'is refused on purpose: a run would own the machine of its worker';

/** The one list of classic words: errors of the API and docs/from-other-systems.md show it. */
export const FOREIGN_WORDS: readonly ForeignWords[] = [
  { there: ['containerImage', 'dockerImage', 'imageUri', 'image_name'], field: 'image' },
  {
    there: ['entrypoint', 'script', 'commands'],
    field: 'command',
    note: 'a list of words, such as ["bash", "-c", "..."]',
  },
  { there: ['cmd', 'arguments', 'argv'], field: 'args', note: 'a list of words' },
  { there: ['environment', 'envVars', 'variables'], field: 'env', note: 'an object from name to value' },
  {
    there: ['envFrom', 'env_file'],
    field: 'secrets_from',
    note: 'each the name of a secret of the kind map',
  },
  { there: ['input', 'parameters', 'params', 'kwargs', 'meta', 'payload'], field: 'inputs' },
  {
    there: ['memory', 'mem', 'ram', 'mem_limit', 'memoryMB', 'memory_limit'],
    field: 'constraints.ram_mb',
    note: 'in MB',
  },
  {
    there: ['vcpus', 'cpus', 'cpu', 'cores', 'cpus_per_task'],
    field: 'constraints.cpu',
    note: 'whole cores; cpu_millis beside it has thousandths',
  },
  { there: ['gpu', 'gpus', 'gres', 'accelerators', 'device_requests'], field: 'constraints.gpus' },
  { there: ['vram', 'gpu_memory'], field: 'constraints.vram_mb', note: 'in MB' },
  { there: ['shm_size', 'sharedMemorySize'], field: 'constraints.shm_mb', note: 'in MB' },
  { there: ['resources', 'resourceRequirements', 'requests', 'limits'], field: 'constraints' },
  {
    there: ['volumes', 'volumeMounts', 'binds', 'mountPoints'],
    field: 'mounts',
    note: 'volumes by the names that the operators of workers offer',
  },
  {
    there: ['tmpfs', 'emptyDir', 'ephemeral_disk', 'ephemeralStorage', 'scratch'],
    field: 'mounts',
    note: 'an entry with scratch_mb and path',
  },
  { there: ['configs', 'configMap', 'template'], field: 'files', note: 'path to {"content": "..."}' },
  {
    there: [
      'timeout',
      'activeDeadlineSeconds',
      'attemptDurationSeconds',
      'time_limit',
      'execution_timeout',
      'walltime',
      'max_run_duration',
    ],
    field: 'timeouts.attempt_s',
    note: 'in seconds, of each attempt',
  },
  {
    there: ['startupTimeoutSeconds', 'schedule_timeout'],
    field: 'timeouts.start_within_s',
    note: 'in seconds',
  },
  {
    there: [
      'retries',
      'retry',
      'max_attempts',
      'max_retries',
      'retryStrategy',
      'backoffLimit',
      'restart',
      'restartPolicy',
    ],
    field: 'retry_policy.max_attempts',
    note: 'the first attempt counts: 2 retries are 3',
  },
  {
    there: ['retry_delay', 'retryDelaySeconds', 'backoff'],
    field: 'retry_policy.backoff_s',
    note: 'in seconds',
  },
  {
    there: [
      'queue',
      'jobQueue',
      'partition',
      'pool',
      'work_pool',
      'nodeSelector',
      'affinity',
      'tolerations',
      'constraint',
    ],
    field: 'selector',
    note: 'a list of tags that the worker has',
  },
  {
    there: ['tags', 'annotations', 'metadata', 'owner'],
    field: 'labels',
    note: 'an object from key to text',
  },
  { there: ['job_name', 'displayName', 'title', 'task_id'], field: 'name' },
  { there: ['workingDir', 'working_directory', 'cwd', 'chdir'], field: 'workdir' },
  { there: ['runAsUser', 'securityContext', 'uid'], field: 'user', note: '"uid" or "uid:gid"' },
  {
    there: ['stop_grace_period', 'terminationGracePeriodSeconds', 'kill_timeout', 'stop_timeout'],
    field: 'stop_grace_s',
    note: 'in seconds',
  },
  {
    there: ['networks', 'network_mode'],
    field: 'network',
    note: 'a name that the operator of the worker offers',
  },
  { there: ['imagePullSecrets', 'repositoryCredentials', 'registry_auth'], field: 'image_pull_secret' },
  {
    there: ['delay', 'eta', 'begin', 'countdown', 'run_after', 'scheduled_at'],
    field: 'start_at',
    note: 'a time, or a span such as 10m',
  },
  {
    there: ['parallelism', 'max_concurrency', 'concurrency_limit', 'max_active_runs'],
    field: 'concurrency',
    note: '{"key": "...", "limit": n}',
  },
  {
    there: ['dependency', 'dependencies', 'upstream', 'needs', 'after'],
    field: 'depends_on',
    note: '[{"run": "..."}]',
  },
  {
    there: ['array', 'arrayProperties', 'completions', 'matrix', 'foreach'],
    field: null,
    note: 'is in the body of POST /groups',
  },
  { there: ['topic', 'notify'], field: 'event_delivery.topic' },
  {
    there: ['clientToken', 'idempotency_key', 'dedupe_key'],
    field: null,
    note: 'is the header Idempotency-Key',
  },
  {
    there: ['op_definition', 'definition', 'jobDefinition', 'job_template', 'workflow'],
    field: null,
    note: 'is in the path of a run of a definition: POST /definitions/{id}/runs',
  },
  { there: ['privileged', 'cap_add', 'devices', 'pid', 'ipc'], field: null, note: NOT_POSSIBLE },
  {
    there: ['ports', 'healthcheck', 'expose'],
    field: null,
    note: 'is not offered: a run is a job that ends, no service',
  },
  { there: ['initContainers', 'sidecars'], field: null, note: 'is not offered: a run is one container' },
];

const BY_WORD: ReadonlyMap<string, ForeignWords> = new Map(
  FOREIGN_WORDS.flatMap((words) => words.there.map((word) => [plainName(word), words] as const)),
);

/** Where a word of another system is here; undefined: it is none that is known. */
export function foreignWord(word: string): ForeignWords | undefined {
  return word.length > 64 ? undefined : BY_WORD.get(plainName(word));
}
