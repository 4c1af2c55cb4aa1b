// The examples of the API description. All use the same definition (`word-count`), run and worker (`worker-1`).

export const EXAMPLE_RUN_ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
export const EXAMPLE_WORKER_ID = 'worker-1';
export const EXAMPLE_BULK_OPERATION_ID = '019a2b3c-1111-7000-8000-0c1d2e3f4a5b';
export const EXAMPLE_API_KEY_ID = '019a2b3c-0000-7000-8000-0c1d2e3f4a5b';
export const EXAMPLE_WEBHOOK_ID = '019a2b3c-2222-7000-8000-0c1d2e3f4a5b';
export const EXAMPLE_FILE_ID = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';
export const EXAMPLE_GROUP_ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5c';
export const EXAMPLE_CURSOR = 'AAAAAAAAAAEm6-5TRbw';
export const EXAMPLE_TOPIC = 'word-counts';

const IMAGE = 'longshore/word-count';
const INPUTS = { text: 'to be or not to be' };
const OUTPUTS = { words: 6 };
const CONSTRAINTS = { cpu: 1, ram_mb: 256 };
const RETRY_POLICY = { max_attempts: 3, backoff_s: 10, max_backoff_s: 600 };
const TIMEOUTS = { start_within_s: 3600, attempt_s: 900 };

/** Path parameters, for `@ApiParam`. */
export const RUN_ID_PARAM = {
  name: 'id',
  description: 'Id of the run, as in the response to its creation. The one of the example is not found: 404.',
  format: 'uuid',
  example: EXAMPLE_RUN_ID,
} as const;
export const WORKER_ID_PARAM = {
  name: 'worker_id',
  description: 'Id of the worker, as in its heartbeats.',
  example: EXAMPLE_WORKER_ID,
} as const;
export const DEFINITION_NAME_PARAM = {
  name: 'name',
  description: 'Id of the definition.',
  example: 'word-count',
} as const;
export const API_KEY_ID_PARAM = {
  name: 'id',
  description: 'Id of the API key, as in the response to its creation.',
  format: 'uuid',
  example: EXAMPLE_API_KEY_ID,
} as const;

export const BULK_OPERATION_ID_PARAM = {
  name: 'id',
  description: 'Id of the bulk operation, as in the response to its creation.',
  format: 'uuid',
  example: EXAMPLE_BULK_OPERATION_ID,
} as const;

export const WEBHOOK_ID_PARAM = {
  name: 'id',
  description: 'Id of the webhook, as in the response to its creation.',
  format: 'uuid',
  example: EXAMPLE_WEBHOOK_ID,
} as const;

export const WEBHOOK_DELIVERY_ID_PARAM = {
  name: 'delivery_id',
  description: 'Id of the delivery, as in the list of deliveries.',
  example: '1',
} as const;

export const FILE_ID_PARAM = {
  name: 'id',
  description: 'Id of the file, as in the response to its creation.',
  format: 'uuid',
  example: EXAMPLE_FILE_ID,
} as const;

/** Events of each type by name, for `@ApiBody`. */
export const EVENT_EXAMPLES = {
  PREPARING: { type: 'PREPARING', msg: 'Pulling the image registry.example/train:3' },
  STARTED: {
    type: 'STARTED',
    msg: 'Container started',
    payload: { worker_id: EXAMPLE_WORKER_ID, gpu_id: 0 },
  },
  PROGRESS: { type: 'PROGRESS', msg: 40 },
  COMPLETED: { type: 'COMPLETED', msg: 'Container exited with code 0', payload: { outputs: OUTPUTS } },
  FAILED: { type: 'FAILED', msg: 'Container failed', payload: { error_message: 'exit code 1' } },
  CANCELLED: { type: 'CANCELLED', msg: 'Not needed any more' },
  RETRIED: { type: 'RETRIED', msg: 'Manual retry', payload: { force: true } },
  custom: { type: 'CHECKPOINT', msg: 'Saved page 3', payload: { page: 3 } },
} as const;

/** Request bodies by the id of the operation and by name. */
export const BODY_EXAMPLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  createRun: {
    minimal: { image: IMAGE, inputs: INPUTS },
    full: {
      image: IMAGE,
      priority: 5,
      inputs: INPUTS,
      outputs: { words: null },
      constraints: { ...CONSTRAINTS, vram_mb: 0 },
      retry_policy: { ...RETRY_POLICY, grow: { ram_mb: { factor: 2, max: 16_384 } } },
      timeouts: TIMEOUTS,
      event_delivery: { topic: EXAMPLE_TOPIC, attributes: { team: 'search' } },
    },
    mounts: {
      image: IMAGE,
      mounts: [
        { volume: 'datasets', path: '/data', read_only: true },
        { volume: 'results', path: '/out', sub_path: 'team-a/${run.id}' },
        { scratch_mb: 10_000, path: '/scratch' },
      ],
    },
  },
  patchRun: { priority: { priority: 9 }, outputs: { outputs: OUTPUTS }, state: { state: 'CANCELLED' } },
  labelRun: { labels: { labels: { team: 'vision', draft: null } }, name: { name: 'nightly training' } },
  upsertDefinition: {
    'word-count': {
      id: 'word-count',
      version: '1.0.0',
      image: IMAGE,
      input_specs: { text: { type: 'string', required: true } },
      output_specs: { words: { type: 'integer' } },
      constraints: CONSTRAINTS,
      retry_policy: RETRY_POLICY,
      timeouts: TIMEOUTS,
      event_delivery: { topic: EXAMPLE_TOPIC },
    },
  },
  createDefinitionRun: { 'word-count': { inputs: INPUTS, priority: 5 } },
  sendHeartbeat: {
    idle: {
      worker_id: EXAMPLE_WORKER_ID,
      resources: { cpu_cores: 8, ram_mb: 32_000, gpus: [{ id: 0, vram_mb: 24_000, tags: ['ada'] }] },
      tags: ['linux'],
    },
    executing: {
      worker_id: EXAMPLE_WORKER_ID,
      resources: { cpu_cores: 8, ram_mb: 32_000, gpus: [] },
      tags: ['linux'],
      running_ops: [
        { id: EXAMPLE_RUN_ID, image: IMAGE, inputs: INPUTS, constraints: CONSTRAINTS, attempt: 1 },
      ],
    },
  },
  putLogChunk: {
    lines: {
      first_line: 0,
      lines: [
        { t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text: 'counting' },
        { t: '2026-01-02T03:04:06.001Z', stream: 'stderr', text: 'no punctuation found' },
      ],
    },
  },
  createApiKey: {
    client: { name: 'nightly import', scopes: ['client'], expires_at: '2100-01-31T09:00:00Z' },
  },
  updateApiKey: { 'files of 10 GiB': { max_file_bytes: 10_737_418_240 } },
  createArtifactUrls: { 'large outputs': { names: ['outputs.json'] } },
  createFile: {
    'a table': { name: 'train.csv', bytes: 1_048_576, content_type: 'text/csv' },
  },
  completeFile: {
    'two parts': { etags: ['"9bb58f26192e4ba00f01e2e7b136bbd8"', '"a54357aff0632cce46d942af68356b38"'] },
  },
  putSecret: {
    opaque: { kind: 'opaque', value: 'correct horse battery staple' },
    registry: {
      kind: 'registry',
      value: { server: 'registry.example.com', username: 'ci', password: 'correct horse battery staple' },
    },
  },
  createGroup: {
    'three steps': {
      name: 'training',
      runs: [
        { ref: 'prepare', image: IMAGE, inputs: INPUTS },
        { ref: 'train', image: IMAGE, inputs: INPUTS, depends_on: [{ ref: 'prepare' }] },
        {
          ref: 'report',
          image: IMAGE,
          inputs: { text: { $from: { ref: 'train', output: '/summary' } } },
          depends_on: [{ ref: 'train' }],
        },
      ],
    },
    'an array of 200 runs, ten at a time': {
      array: { size: 200, run: { image: IMAGE, inputs: { text: '${array.index}' } } },
      max_parallel: 10,
    },
  },
  cancelGroup: { 'with a reason': { reason: 'The input was wrong.' } },
  retryGroup: { 'every member': { only: 'all' } },
  putSchedule: {
    'every night': {
      cron: ['30 2 * * *'],
      timezone: 'Europe/Berlin',
      run: { image: IMAGE, inputs: { text: 'the report of ${schedule.date}' } },
    },
    'a definition, every ten minutes': {
      every_s: 600,
      overlap: 'queue_one',
      run: { definition: 'word-count', inputs: INPUTS },
    },
  },
  previewSchedule: { 'every night': { cron: ['30 2 * * *'], timezone: 'Europe/Berlin', count: 5 } },
  pauseSchedule: { 'with a note': { note: 'The warehouse is being moved.' } },
  backfillSchedule: { 'four days': { from: '2026-01-01T00:00:00Z', until: '2026-01-05T00:00:00Z' } },
  createWebhook: {
    'failures of a team': {
      url: 'https://1.1.1.1/hooks/longshore',
      events: ['run.failed', 'run.recovered'],
      where: { label: ['team=vision'] },
    },
  },
  updateWebhook: { disable: { enabled: false } },
  rotateWebhookSecret: { 'both for a day': { keep_old_s: 86_400 } },
  replayWebhook: { 'the last two hours': { from: '2h' } },
  putPause: {
    'runs of a team': { where: { label: ['team=vision'] }, reason: 'The data centre moves.', until: '2h' },
  },
  createRuns: {
    'two runs': {
      runs: [
        { image: IMAGE, inputs: INPUTS },
        { image: IMAGE, inputs: INPUTS, priority: 5 },
      ],
    },
  },
  cancelRun: { 'with a reason': { reason: 'The input was wrong.' } },
  rerunRun: { 'with more memory': { changes: { constraints: { ram_mb: 2048 } } } },
  cancelRuns: { 'one run': { ids: [EXAMPLE_RUN_ID] } },
  retryRuns: { 'one run': { ids: [EXAMPLE_RUN_ID] } },
  createBulkOperation: {
    'cancel all of a team': {
      action: 'cancel',
      filter: { state: 'PENDING', label: ['team=vision'] },
      reason: 'The input was wrong.',
      dry_run: true,
    },
    'how many would be retried': {
      action: 'retry',
      filter: { cause: 'infrastructure', 'created[gte]': 1_767_225_600 },
      dry_run: true,
    },
    labels: {
      action: 'labels',
      filter: { image: IMAGE },
      value: { team: 'vision', draft: null },
    },
  },
  reportEvents: {
    'two events': {
      events: [
        { run_id: EXAMPLE_RUN_ID, attempt: 1, ...EVENT_EXAMPLES.STARTED },
        { run_id: EXAMPLE_RUN_ID, attempt: 1, ...EVENT_EXAMPLES.PROGRESS },
      ],
    },
  },
};

/** The form in which OpenAPI expects named examples. */
export function namedExamples(values: Readonly<Record<string, unknown>>): Record<string, { value: unknown }> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]));
}
