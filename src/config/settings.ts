import type { KeyObject } from 'node:crypto';
import { Transform } from 'class-transformer';
import { IsIn, IsOptional, IsString, ValidateBy } from 'class-validator';
import { errorText } from '@longshore/common/errors';
import { lengthWithin, NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import { parseNetworks } from '@longshore/common/networks';
import { parseDatabaseUrl } from '../database/failover/database-url.js';
import { Budgets } from './budgets.js';
import { FileSettings } from './file-settings.js';
import {
  BooleanSetting,
  IntegerSetting,
  SecondsSetting,
  Secret,
  settingKeysOf,
  TextSetting,
} from './setting-decorators.js';
import {
  HasApiKeys,
  parseApiKeys,
  type ApiKeySetting,
  HasSecretsKeys,
  parseSecretsKeys,
} from './key-settings.js';

/** Why a text is no URL of a database; never shows it. */
function faultOfDatabaseUrl(url: unknown): string | undefined {
  try {
    parseDatabaseUrl(String(url));
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}

/** Levels of SERVICE_LOG_LEVEL, in ascending order. */
const LOG_LEVELS = ['debug', 'info', 'warning', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const MAX_SERVER_PROCESSES = 256;

/**
 * The validated, frozen settings of the service. The decorators declare variables, flags, defaults and allowed values.
 * Inject it by this class or by `settingsConfig.KEY`.
 */
export class Settings extends FileSettings {
  @TextSetting(
    'SERVICE_HOST',
    { default: '127.0.0.1', allowed: 'an IP address or host name', check: /^[A-Za-z0-9._:%-]{1,255}$/ },
    'Address to listen on; 0.0.0.0 listens on every IPv4 interface.',
  )
  readonly host: string;

  @IntegerSetting(
    'SERVICE_PORT',
    { min: 0, max: 65_535, default: 5555 },
    'TCP port to listen on; with 0 the system chooses a free one.',
  )
  readonly port: number;

  @BooleanSetting('SERVICE_RELOAD', false, 'Restart when the sources change; for development only.')
  readonly reload: boolean;

  @IntegerSetting(
    'SERVICE_WORKERS',
    { min: 1, max: MAX_SERVER_PROCESSES, default: 1 },
    'Server processes on the same port; one that exits is replaced.',
  )
  readonly workers: number;

  @TextSetting(
    'SERVICE_LOG_LEVEL',
    { default: 'info', allowed: 'debug, info, warning or error', check: IsIn(LOG_LEVELS) },
    'Lowest level that is logged.',
  )
  readonly logLevel: LogLevel;

  @SecondsSetting(
    'SERVICE_WORKER_TIMEOUT',
    { max: 86_400, default: 60 },
    'Seconds without a heartbeat after which a worker is stale.',
  )
  readonly workerTimeout: number;

  @IntegerSetting(
    'SERVICE_WORKER_AWAY_MAX_S',
    { min: 0, max: 43_200, default: 600 },
    'Seconds for which a worker that says so may be away and keep its runs, at most; 0: workers lose their runs after the worker timeout.',
  )
  readonly workerAwayMax: number;

  /** Holds a password. Undefined means the embedded PostgreSQL. */
  @Secret(
    {
      env: 'DATABASE_URL',
      kind: 'text',
      allowed:
        'a postgres:// or postgresql:// URL, possibly of several hosts; of target_session_attrs any, primary or read-write',
      description:
        'PostgreSQL 14 or newer; when unset, the service runs its own PostgreSQL in the data directory.',
    },
    IsOptional(),
    IsString(),
    ValidateBy({
      name: 'isDatabaseUrl',
      validator: {
        validate: (url) => faultOfDatabaseUrl(url) === undefined,
        defaultMessage: (context) => faultOfDatabaseUrl(context?.value) ?? '',
      },
    }),
  )
  readonly databaseUrl: string | undefined;

  /** Where `databaseUrl` was read from (DATABASE_URL_FILE), to be read again for each connection. */
  declare readonly databaseUrlFile?: string;

  @TextSetting(
    'SERVICE_DATA_DIR',
    { default: '.data', allowed: 'the path of a directory', check: /^\P{Cc}+$/u },
    'Directory of the embedded PostgreSQL and of the API key that the first start generates.',
  )
  readonly dataDir: string;

  /** Empty when SERVICE_API_KEYS is unset. */
  @Secret(
    {
      env: 'SERVICE_API_KEYS',
      kind: 'text',
      allowed:
        'a comma-separated list of scope:key or scope:name=key; scope is admin, client, worker, worker@bindings or metrics, and the key has 20 characters or more',
      description:
        'API keys, as scope:key or scope:name=key separated by commas; worker@ID+PREFIX*+tag:NAME+capability:NAME:key binds a key to workers and to what they may have. When there are none, the first start generates one.',
    },
    Transform(({ value }) => parseApiKeys(value)),
    HasApiKeys(),
  )
  readonly apiKeys: readonly ApiKeySetting[];

  /** The first one encrypts, all decrypt. Empty when SERVICE_SECRETS_KEY is unset: then there are no secrets. */
  @Secret(
    {
      env: 'SERVICE_SECRETS_KEY',
      kind: 'text',
      allowed: 'a comma-separated list of keys, each 32 bytes in Base64',
      description:
        'Keys that encrypt the secrets of runs, separated by commas: the first encrypts, all decrypt. When unset, there are no secrets.',
    },
    Transform(({ value }) => parseSecretsKeys(value)),
    HasSecretsKeys(),
  )
  readonly secretsKeys: readonly KeyObject[];

  /** The start checks that the strategy exists; that of an extension, when the application is created. */
  @TextSetting(
    'SERVICE_SCHEDULER',
    {
      default: 'direct',
      allowed: 'the name of a scheduling strategy (letters, digits, ".", "_" and "-")',
      check: /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    },
    'Strategy that selects the runs for a claim.',
  )
  readonly scheduler: string;

  @TextSetting(
    'SERVICE_EXTENSIONS',
    { allowed: 'a comma-separated list of JavaScript files', check: /^\P{Cc}+$/u },
    'Files of extensions; see docs/extending.md.',
  )
  readonly extensions: string | undefined;

  @SecondsSetting(
    'SERVICE_FIT_RESERVE_AFTER',
    { min: 0, max: 31_536_000, default: 300 },
    'Seconds after which the strategy "fit" reserves a worker for a run that it has passed over.',
  )
  readonly fitReserveAfter: number;

  @SecondsSetting(
    'SERVICE_REAPER_INTERVAL',
    { max: 3600, default: 5 },
    'Seconds between two passes of the reaper.',
  )
  readonly reaperInterval: number;

  @IntegerSetting(
    'SERVICE_MAX_RECLAIMS',
    { min: 0, max: 1000, default: 3 },
    'Losses that a run survives: reclaims and failures with the cause infrastructure, those of one worker in a row counted once. One more ends it after SERVICE_LOSS_PATIENCE.',
  )
  readonly maxReclaims: number;

  @IntegerSetting(
    'SERVICE_LOSS_PATIENCE',
    { min: 0, max: 604_800, default: 900 },
    'Seconds since the first loss in which more losses than SERVICE_MAX_RECLAIMS do not end a run; four times as long if the losses of one worker in a row, counted once, are not more. A run whose retry policy waits longer is given that time. With 0 the number of losses alone decides.',
  )
  readonly lossPatience: number;

  @BooleanSetting(
    'SERVICE_FEED_ENABLED',
    true,
    'Write events to the feeds of their topics; with false there are no feeds.',
  )
  readonly feedEnabled: boolean;

  /** Has the form of `topic` of `event_delivery`. */
  @TextSetting(
    'SERVICE_DEFAULT_TOPIC',
    {
      allowed: 'a text without control characters of 1 to 255 characters',
      check: ValidateBy({
        name: 'isTopic',
        validator: {
          validate: (text) => lengthWithin(String(text), 1, 255) && NO_CONTROL_CHARACTERS.test(String(text)),
        },
      }),
    },
    'Topic of runs that name none; when unset, such runs are on no feed.',
  )
  readonly defaultTopic: string | undefined;

  @IntegerSetting(
    'SERVICE_FEED_RETENTION_DAYS',
    { min: 0, max: 36_500, default: 7 },
    'Days that events stay on their feeds; 0 keeps them as long as SERVICE_RUN_RETENTION_DAYS says.',
  )
  readonly feedRetentionDays: number;

  @IntegerSetting(
    'SERVICE_RUN_RETENTION_DAYS',
    { min: 0, max: 36_500, default: 0 },
    'Days that ended runs are kept, with everything that belongs to them; 0 keeps them for ever.',
  )
  readonly runRetentionDays: number;

  @IntegerSetting(
    'SERVICE_AUDIT_RETENTION_DAYS',
    { min: 0, max: 36_500, default: 400 },
    'Days that entries of the audit log are kept; 0 keeps them for ever.',
  )
  readonly auditRetentionDays: number;

  @BooleanSetting(
    'SERVICE_WEBHOOK_HTTP',
    false,
    'Whether webhooks may have http URLs, which send events in clear text.',
  )
  readonly webhookHttp: boolean;

  @TextSetting(
    'SERVICE_WEBHOOK_NETWORKS',
    {
      allowed: 'a comma-separated list of networks in CIDR notation',
      check: ValidateBy({
        name: 'isNetworkList',
        validator: { validate: (text) => parseNetworks(String(text)) !== undefined },
      }),
    },
    'Networks that are not public and that webhooks may reach, such as 10.1.0.0/16; when unset, webhooks reach public addresses only.',
  )
  readonly webhookNetworks: string | undefined;

  @TextSetting(
    'SERVICE_PUBLIC_URL',
    {
      allowed: 'an http or https URL without a query',
      check: /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/,
    },
    'URL under which people reach the service; with it, webhooks send the address of the page of a run.',
  )
  readonly publicUrl: string | undefined;

  /** With the minimum, every line fits into half of it. */
  @IntegerSetting(
    'SERVICE_LOG_LIMIT_BYTES',
    { min: 262_144, max: 1_073_741_824, default: 16_777_216 },
    'Bytes of log that are kept of each attempt; of a longer log, the beginning and the end are kept.',
  )
  readonly logLimitBytes: number;

  @IntegerSetting(
    'SERVICE_MAX_BODY_BYTES',
    { min: 1, max: 268_435_456, default: 1_048_576 },
    'Largest request body in bytes; a larger one is refused with 413.',
  )
  readonly maxBodyBytes: number;

  @IntegerSetting(
    'SERVICE_JOURNAL_GROUP_BYTES',
    { min: 1, max: 268_435_456, default: 524_288 },
    'Bytes of JSON that are committed together; a larger command is committed alone.',
  )
  readonly journalGroupBytes: number;

  @IntegerSetting(
    'SERVICE_JOURNAL_WAITING',
    { min: 1, max: 1_000_000, default: 20_000 },
    'Creations, events and claims that may wait in each queue of a server process (requests, reports, large requests); above that the answer is 503.',
  )
  readonly journalWaiting: number;

  @IntegerSetting(
    'SERVICE_JOURNAL_WAITING_PER_KEY',
    { min: 1, max: 1_000_000, default: 10_000 },
    'Creations, events and claims of one API key that may wait in each queue of a server process; above that the answer is 429.',
  )
  readonly journalWaitingPerKey: number;

  @IntegerSetting(
    'SERVICE_JOURNAL_WAITING_BYTES',
    { min: 1, max: 1_073_741_824, default: 33_554_432 },
    'Bytes of JSON that may wait in each queue of a server process (requests, reports, large requests); above that the answer is 503.',
  )
  readonly journalWaitingBytes: number;

  @IntegerSetting(
    'SERVICE_JOURNAL_WAITING_BYTES_PER_KEY',
    { min: 1, max: 1_073_741_824, default: 16_777_216 },
    'Bytes of JSON of one API key that may wait in each queue of a server process; above that the answer is 429.',
  )
  readonly journalWaitingBytesPerKey: number;

  @IntegerSetting(
    'SERVICE_RATE_LIMIT',
    { min: 0, max: 10_000_000, default: 0 },
    'Requests per minute, API key and server process; above that the answer is 429. 0 is no limit.',
  )
  readonly rateLimit: number;

  @IntegerSetting(
    'SERVICE_AUTH_FAILURE_LIMIT',
    { min: 0, max: 1_000_000, default: 20 },
    'Failed authentications per second, address and server process; above that the answer is 429. 0 is no limit.',
  )
  readonly authFailureLimit: number;

  /** At least 2: migrations need one connection for their lock and another to work. */
  @IntegerSetting(
    'SERVICE_DB_POOL_SIZE',
    { min: 2, max: 1000, default: 10 },
    'Database connections of one server process.',
  )
  readonly dbPoolSize: number;

  /**
   * Undefined is memory for one process and shared for several. Memory is rejected with several processes: each would
   * know its own workers only and reclaim the runs of the others.
   */
  @TextSetting(
    'SERVICE_WORKER_POOL',
    { allowed: 'memory or shared, and shared with several server processes', check: IsWorkerPool() },
    'Where registered workers are kept: in memory, or shared in the database. When unset, one process uses memory and several use shared.',
  )
  readonly workerPool: 'memory' | 'shared' | undefined;
}

/** Uses the allowed number of processes only: another number is a problem of its own setting. */
function IsWorkerPool(): PropertyDecorator {
  return ValidateBy({
    name: 'isWorkerPool',
    validator: {
      validate: (pool, context) =>
        pool === 'shared' ||
        (pool === 'memory' && context?.object instanceof Settings && !runsSeveral(context.object)),
    },
  });
}

function runsSeveral({ workers }: Settings): boolean {
  return workers > 1 && workers <= MAX_SERVER_PROCESSES;
}

/** Every setting, in the order of the help text. */
export const SETTING_KEYS = settingKeysOf(Settings, FileSettings, Budgets);
