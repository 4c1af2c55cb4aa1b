import { IntegerSetting, SecondsSetting } from './setting-decorators.js';

/** Settings that bound what the callers of one server process may hold: connections, places and bytes. */
export abstract class Budgets {
  @IntegerSetting(
    'SERVICE_MAX_ANSWER_BYTES',
    { min: 4096, max: 268_435_456, default: 4_194_304 },
    'Bytes of data after which a page ends, and bytes of events that runs or attempts show in one answer. A page has at least one entry.',
  )
  readonly maxAnswerBytes: number;

  @IntegerSetting(
    'SERVICE_MAX_WORKERS',
    { min: 1, max: 1_000_000, default: 10_000 },
    'Registered workers; the heartbeat of a further one is refused with 503.',
  )
  readonly maxWorkers: number;

  @IntegerSetting(
    'SERVICE_MAX_WORKERS_PER_KEY',
    { min: 1, max: 1_000_000, default: 2000 },
    'Registered workers of one API key; the heartbeat of a further one is refused with 429.',
  )
  readonly maxWorkersPerKey: number;

  @IntegerSetting(
    'SERVICE_MAX_WORKER_BYTES',
    { min: 1024, max: 1_048_576, default: 196_608 },
    'Bytes of what a worker says of itself: GPUs, tags, capabilities, engine and reasons; a heartbeat with more is refused with 429. Its running runs are shown as far as they fit, too.',
  )
  readonly maxWorkerBytes: number;

  @IntegerSetting(
    'SERVICE_MAX_DEFINITION_BYTES',
    { min: 1024, max: 268_435_456, default: 524_288 },
    'Bytes of one version of a definition; a larger one is refused with 429.',
  )
  readonly maxDefinitionBytes: number;

  @IntegerSetting(
    'SERVICE_MAX_DEFINITION_VERSIONS',
    { min: 1, max: 1_000_000, default: 1000 },
    'Versions of one definition; a further one is refused with 429.',
  )
  readonly maxDefinitionVersions: number;

  @IntegerSetting(
    'SERVICE_MAX_BULK_OPERATIONS_PER_KEY',
    { min: 1, max: 10_000, default: 10 },
    'Bulk operations of one API key that run at the same time; a further one is refused with 429.',
  )
  readonly maxBulkOperationsPerKey: number;

  @IntegerSetting(
    'SERVICE_MAX_BULK_RUNS_PER_KEY',
    { min: 1, max: 1_000_000_000, default: 200_000 },
    'Runs that the running bulk operations of one API key have still to do; an operation that comes to more is refused with 429, unless it is the only one.',
  )
  readonly maxBulkRunsPerKey: number;

  @IntegerSetting(
    'SERVICE_MAX_ATTEMPT_EVENTS',
    { min: 1, max: 1_000_000, default: 10_000 },
    'Events of an attempt that change no state (PROGRESS, custom types); further ones are accepted but not recorded.',
  )
  readonly maxAttemptEvents: number;

  @IntegerSetting(
    'SERVICE_MAX_ATTEMPT_EVENT_BYTES',
    { min: 1024, max: 1_073_741_824, default: 8_388_608 },
    'Bytes of messages and payloads of the events of an attempt that change no state; further events are accepted but not recorded.',
  )
  readonly maxAttemptEventBytes: number;

  @IntegerSetting(
    'SERVICE_MAX_CONNECTIONS',
    { min: 1, max: 1_000_000, default: 10_000 },
    'Open connections of one server process; one more is refused, and idle ones are closed.',
  )
  readonly maxConnections: number;

  @IntegerSetting(
    'SERVICE_CONNECTION_REQUESTS',
    { min: 1, max: 1_000, default: 4 },
    'Requests of one connection that are processed at the same time; further pipelined ones wait.',
  )
  readonly connectionRequests: number;

  @SecondsSetting(
    'SERVICE_WRITE_TIMEOUT',
    { max: 3600, default: 30 },
    'Seconds after which a connection is closed whose client reads nothing of a response.',
  )
  readonly writeTimeout: number;

  @IntegerSetting(
    'SERVICE_UNREAD_BYTES',
    { min: 65_536, max: 68_719_476_736, default: 67_108_864 },
    'Bytes of responses that clients of one server process have not read yet; above it the oldest are cut off.',
  )
  readonly unreadBytes: number;

  @IntegerSetting(
    'SERVICE_BODY_BYTES',
    { min: 65_536, max: 68_719_476_736, default: 67_108_864 },
    'Bytes of request bodies in progress in one server process; above it the answer is 503.',
  )
  readonly bodyBytes: number;

  @IntegerSetting(
    'SERVICE_BODY_BYTES_PER_KEY',
    { min: 65_536, max: 68_719_476_736, default: 16_777_216 },
    'Bytes of request bodies of one API key in progress in one server process; above it the answer is 429.',
  )
  readonly bodyBytesPerKey: number;

  @IntegerSetting(
    'SERVICE_READERS',
    { min: 1, max: 1_000_000, default: 5_000 },
    'Event streams and waiting polls of feeds in one server process, and as many of logs and of timelines; above it the answer is 503.',
  )
  readonly readers: number;

  @IntegerSetting(
    'SERVICE_READERS_PER_KEY',
    { min: 1, max: 1_000_000, default: 1_000 },
    'Event streams and waiting polls of one API key in one server process, of feeds, of logs and of timelines each; above it the answer is 429.',
  )
  readonly readersPerKey: number;

  @IntegerSetting(
    'SERVICE_WAITING_CLAIMS',
    { min: 1, max: 1_000_000, default: 20_000 },
    'Claims that wait for work in one server process; above it the answer is 503.',
  )
  readonly waitingClaims: number;

  @IntegerSetting(
    'SERVICE_WAITING_CLAIMS_PER_KEY',
    { min: 1, max: 1_000_000, default: 10_000 },
    'Claims of one API key that wait for work in one server process; above it the answer is 429.',
  )
  readonly waitingClaimsPerKey: number;

  @IntegerSetting(
    'SERVICE_LOG_SEARCHES',
    { min: 1, max: 10_000, default: 32 },
    'Searches of logs in one server process, of which one runs at a time; above it the answer is 503.',
  )
  readonly logSearches: number;

  @IntegerSetting(
    'SERVICE_LOG_SEARCHES_PER_KEY',
    { min: 1, max: 10_000, default: 4 },
    'Searches of logs of one API key in one server process; above it the answer is 429.',
  )
  readonly logSearchesPerKey: number;
}
