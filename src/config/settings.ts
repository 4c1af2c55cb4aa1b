import { Transform } from 'class-transformer';
import {
  IsBoolean,
  IsIn,
  IsInt,
  IsNotEmpty,
  IsNumber,
  IsOptional,
  IsPositive,
  IsString,
  Matches,
  Max,
  Min,
  ValidateBy,
} from 'class-validator';
/** Levels of SERVICE_LOG_LEVEL, in ascending order. */
export const LOG_LEVELS = ['debug', 'info', 'warning', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Places that can hold the pool of workers. */
export const WORKER_POOLS = ['memory', 'shared'] as const;
export type WorkerPoolKind = (typeof WORKER_POOLS)[number];

const MAX_SERVER_PROCESSES = 256;

/** Scopes that a key of SERVICE_API_KEYS may have. */
export const API_KEY_SCOPES = ['admin', 'client', 'worker'] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/** One entry of SERVICE_API_KEYS; `key` is the secret itself. */
export interface ApiKeySetting {
  readonly scope: ApiKeyScope;
  readonly key: string;
}

/** Splits the text of SERVICE_API_KEYS into entries, which may be invalid. */
function parseApiKeys(text: unknown): readonly { readonly scope: string; readonly key: string }[] {
  if (typeof text !== 'string') return [];
  return text.split(',').map((entry) => {
    const [scope = '', ...key] = entry.trim().split(':');
    return { scope, key: key.join(':') };
  });
}

/** Checks the entries. The message names the position of an entry, never its text. */
function HasApiKeys(): PropertyDecorator {
  return ValidateBy({
    name: 'hasApiKeys',
    validator: {
      validate: (entries) => faultsOf(entries).length === 0,
      defaultMessage: (context) => faultsOf(context?.value).join('; '),
    },
  });
}

function faultsOf(entries: readonly ApiKeySetting[]): string[] {
  return entries.flatMap(({ scope, key }, index) => {
    if (!API_KEY_SCOPES.includes(scope)) {
      return [`entry ${index + 1} does not start with admin:, client: or worker:`];
    }
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return [`the key of entry ${index + 1} is empty or holds a character that is not visible ASCII`];
    }
    return [];
  });
}

/**
 * The validated, frozen settings of the service. The decorators define the allowed values; `SETTING_KEYS` has names,
 * defaults and descriptions. Inject it by this class or by `settingsConfig.KEY`.
 */
export class Settings {
  @IsString()
  @Matches(/^[A-Za-z0-9._:%-]{1,255}$/)
  readonly host: string;

  /** TCP port; 0 lets the system choose. */
  @IsInt()
  @Min(0)
  @Max(65_535)
  readonly port: number;

  @IsBoolean()
  readonly reload: boolean;

  @IsInt()
  @Min(1)
  @Max(MAX_SERVER_PROCESSES)
  readonly workers: number;

  @IsIn(LOG_LEVELS)
  readonly logLevel: LogLevel;

  /** Seconds, possibly a fraction. */
  @IsNumber()
  @IsPositive()
  @Max(86_400)
  readonly workerTimeout: number;

  /** Secret: holds a password. Undefined means the embedded PostgreSQL. */
  @IsOptional()
  @IsString()
  @Matches(/^postgres(?:ql)?:\/\/[^\s\p{Cc}]+$/u)
  @ValidateBy({ name: 'isParsableUrl', validator: { validate: (url) => URL.canParse(String(url)) } })
  readonly databaseUrl: string | undefined;

  @IsString()
  @IsNotEmpty()
  @Matches(/^\P{Cc}+$/u)
  readonly dataDir: string;

  /** Secret. Empty when SERVICE_API_KEYS is unset. */
  @Transform(({ value }) => parseApiKeys(value))
  @HasApiKeys()
  readonly apiKeys: readonly ApiKeySetting[];

  /** Name of a strategy; `checkScheduler` checks that it exists. */
  @IsString()
  @Matches(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
  readonly scheduler: string;

  /** Paths of JavaScript files, separated by commas. */
  @IsOptional()
  @IsString()
  @Matches(/^\P{Cc}+$/u)
  readonly extensions: string | undefined;

  /** Seconds, possibly a fraction; 0 reserves at the first chance. */
  @IsNumber()
  @Min(0)
  @Max(31_536_000)
  readonly fitReserveAfter: number;

  /** Seconds, possibly a fraction. */
  @IsNumber()
  @IsPositive()
  @Max(3600)
  readonly reaperInterval: number;

  @IsInt()
  @Min(0)
  @Max(1000)
  readonly maxReclaims: number;

  @IsBoolean()
  readonly feedEnabled: boolean;

  /** 0 keeps for ever. */
  @IsInt()
  @Min(0)
  @Max(36_500)
  readonly feedRetentionDays: number;

  /** Counted from a run's end; 0 keeps for ever. */
  @IsInt()
  @Min(0)
  @Max(36_500)
  readonly runRetentionDays: number;

  /** Bytes of text and line ends. With the minimum, every line fits into half of it. */
  @IsInt()
  @Min(262_144)
  @Max(1_073_741_824)
  readonly logLimitBytes: number;

  @IsInt()
  @Min(1)
  @Max(268_435_456)
  readonly maxBodyBytes: number;

  /** Requests a minute per API key and process; 0 is no limit. */
  @IsInt()
  @Min(0)
  @Max(10_000_000)
  readonly rateLimit: number;

  /** At least 2: migrations need one connection for their lock and another to work. */
  @IsInt()
  @Min(2)
  @Max(1000)
  readonly dbPoolSize: number;

  /**
   * Undefined is memory for one process and shared for several. Memory is rejected with several processes: each would
   * know its own workers only and reclaim the runs of the others.
   */
  @IsOptional()
  @IsIn(WORKER_POOLS)
  @ValidateBy({
    name: 'isSharedBySeveralProcesses',
    validator: {
      validate: (pool, context) =>
        !(pool === 'memory' && context?.object instanceof Settings && runsSeveral(context.object)),
    },
  })
  readonly workerPool: WorkerPoolKind | undefined;
}

function runsSeveral({ workers }: Settings): boolean {
  return workers > 1 && workers <= MAX_SERVER_PROCESSES;
}
