/** How the text of a setting is read. */
export type SettingKind = 'text' | 'integer' | 'number' | 'boolean' | 'api-keys';

/** One row of the settings table: everything that help, docs and `.env.example` say about a setting. */
export interface SettingKey {
  /** Name of the field in `Settings`. */
  readonly field: string;
  /** Environment variable. */
  readonly env: string;
  /** Long flag without the dashes; undefined for secrets, because process lists show arguments. */
  readonly flag: string | undefined;
  readonly kind: SettingKind;
  /** A secret's value is never printed. */
  readonly secret: boolean;
  /** Text that is read when neither flag nor variable is given; undefined leaves the setting unset. */
  readonly default: string | undefined;
  /** What is allowed, worded to follow "must be". */
  readonly allowed: string;
  readonly description: string;
}

/** Every setting of the service, in the order in which help shows them. */
export const SETTING_KEYS = [
  {
    field: 'host',
    env: 'SERVICE_HOST',
    flag: 'host',
    kind: 'text',
    secret: false,
    default: '127.0.0.1',
    allowed: 'an IP address or host name',
    description: 'Address to listen on; 0.0.0.0 listens on every IPv4 interface.',
  },
  {
    field: 'port',
    env: 'SERVICE_PORT',
    flag: 'port',
    kind: 'integer',
    secret: false,
    default: '5555',
    allowed: 'an integer from 0 to 65535',
    description: 'TCP port to listen on; 0 takes a free one and prints it.',
  },
  {
    field: 'reload',
    env: 'SERVICE_RELOAD',
    flag: 'reload',
    kind: 'boolean',
    secret: false,
    default: 'false',
    allowed: 'true or false',
    description: 'Restart when the sources change; for development only.',
  },
  {
    field: 'workers',
    env: 'SERVICE_WORKERS',
    flag: 'workers',
    kind: 'integer',
    secret: false,
    default: '1',
    allowed: 'an integer from 1 to 256',
    description: 'Server processes that answer on the same port; one that dies is replaced.',
  },
  {
    field: 'logLevel',
    env: 'SERVICE_LOG_LEVEL',
    flag: 'log-level',
    kind: 'text',
    secret: false,
    default: 'info',
    allowed: 'debug, info, warning or error',
    description: 'Least important level that is logged.',
  },
  {
    field: 'workerTimeout',
    env: 'SERVICE_WORKER_TIMEOUT',
    flag: 'worker-timeout',
    kind: 'number',
    secret: false,
    default: '60',
    allowed: 'a number of seconds greater than 0 and at most 86400',
    description: 'Seconds of silence after which a worker no longer counts as active.',
  },
  {
    field: 'databaseUrl',
    env: 'DATABASE_URL',
    flag: undefined,
    kind: 'text',
    secret: true,
    default: undefined,
    allowed: 'a postgres:// or postgresql:// URL',
    description:
      'PostgreSQL 14 or newer; when unset, the service runs its own PostgreSQL in the data directory.',
  },
  {
    field: 'dataDir',
    env: 'SERVICE_DATA_DIR',
    flag: 'data-dir',
    kind: 'text',
    secret: false,
    default: '.data',
    allowed: 'the path of a directory',
    description: 'Directory of the embedded PostgreSQL and of the API key made at the first start.',
  },
  {
    field: 'apiKeys',
    env: 'SERVICE_API_KEYS',
    flag: undefined,
    kind: 'api-keys',
    secret: true,
    default: undefined,
    allowed: 'a comma-separated list of scope:key, where scope is admin, client or worker',
    description:
      'API keys, as scope:key separated by commas; when there are none, the first start makes one.',
  },
  {
    field: 'scheduler',
    env: 'SERVICE_SCHEDULER',
    flag: 'scheduler',
    kind: 'text',
    secret: false,
    default: 'direct',
    allowed: 'the name of a scheduling strategy (letters, digits, ".", "_" and "-")',
    description: 'Strategy that chooses the pending runs a worker gets.',
  },
  {
    field: 'extensions',
    env: 'SERVICE_EXTENSIONS',
    flag: 'extensions',
    kind: 'text',
    secret: false,
    default: undefined,
    allowed: 'a comma-separated list of JavaScript files',
    description: 'Files with Nest modules of your own; see docs/extending.md.',
  },
  {
    field: 'fitReserveAfter',
    env: 'SERVICE_FIT_RESERVE_AFTER',
    flag: 'fit-reserve-after',
    kind: 'number',
    secret: false,
    default: '300',
    allowed: 'a number of seconds from 0 to 31536000',
    description:
      'Seconds for which the strategy "fit" may pass a run over before it keeps a worker free for it.',
  },
  {
    field: 'reaperInterval',
    env: 'SERVICE_REAPER_INTERVAL',
    flag: 'reaper-interval',
    kind: 'number',
    secret: false,
    default: '5',
    allowed: 'a number of seconds greater than 0 and at most 3600',
    description: 'Seconds between two searches for runs whose worker is lost.',
  },
  {
    field: 'maxReclaims',
    env: 'SERVICE_MAX_RECLAIMS',
    flag: 'max-reclaims',
    kind: 'integer',
    secret: false,
    default: '3',
    allowed: 'an integer from 0 to 1000',
    description: 'Worker losses that a run survives; the next one makes it FAILED.',
  },
  {
    field: 'feedEnabled',
    env: 'SERVICE_FEED_ENABLED',
    flag: 'feed-enabled',
    kind: 'boolean',
    secret: false,
    default: 'true',
    allowed: 'true or false',
    description: 'Mirror events to the feeds of their topics; with false there are no feeds.',
  },
  {
    field: 'feedRetentionDays',
    env: 'SERVICE_FEED_RETENTION_DAYS',
    flag: 'feed-retention-days',
    kind: 'integer',
    secret: false,
    default: '7',
    allowed: 'an integer from 0 to 36500',
    description: 'Days that events stay on their feeds; 0 keeps them for ever.',
  },
  {
    field: 'runRetentionDays',
    env: 'SERVICE_RUN_RETENTION_DAYS',
    flag: 'run-retention-days',
    kind: 'integer',
    secret: false,
    default: '0',
    allowed: 'an integer from 0 to 36500',
    description:
      'Days after their end that runs are kept, with everything that belongs to them; 0 keeps them for ever.',
  },
  {
    field: 'logLimitBytes',
    env: 'SERVICE_LOG_LIMIT_BYTES',
    flag: 'log-limit-bytes',
    kind: 'integer',
    secret: false,
    default: '16777216',
    allowed: 'an integer from 262144 to 1073741824',
    description:
      'Bytes of log that are kept of an attempt: the beginning, and the newest; what is dropped between is named.',
  },
  {
    field: 'maxBodyBytes',
    env: 'SERVICE_MAX_BODY_BYTES',
    flag: 'max-body-bytes',
    kind: 'integer',
    secret: false,
    default: '1048576',
    allowed: 'an integer from 1 to 268435456',
    description: 'Largest request body in bytes; larger ones are answered with 413.',
  },
  {
    field: 'rateLimit',
    env: 'SERVICE_RATE_LIMIT',
    flag: 'rate-limit',
    kind: 'integer',
    secret: false,
    default: '0',
    allowed: 'an integer from 0 to 10000000',
    description:
      'Requests a minute per API key and server process; more are answered with 429, 0 is no limit.',
  },
  {
    field: 'dbPoolSize',
    env: 'SERVICE_DB_POOL_SIZE',
    flag: 'db-pool-size',
    kind: 'integer',
    secret: false,
    default: '10',
    allowed: 'an integer from 2 to 1000',
    description: 'Database connections of one server process.',
  },
  {
    field: 'workerPool',
    env: 'SERVICE_WORKER_POOL',
    flag: 'worker-pool',
    kind: 'text',
    secret: false,
    default: undefined,
    allowed: 'memory or shared, and shared with several server processes',
    description:
      'Where the pool of workers is kept: memory of the process, or the database; unset is memory for one process and shared for several.',
  },
] as const satisfies readonly SettingKey[];

/** Name of a field of `Settings`. */
export type SettingField = (typeof SETTING_KEYS)[number]['field'];
