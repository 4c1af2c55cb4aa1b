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
import { HasApiKeys, parseApiKeys, type ApiKeySetting } from './api-keys-setting.js';

/** Levels of SERVICE_LOG_LEVEL, from the chattiest to the quietest. */
export const LOG_LEVELS = ['debug', 'info', 'warning', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Places that can hold the pool of workers. */
export const WORKER_POOLS = ['memory', 'shared'] as const;
export type WorkerPoolKind = (typeof WORKER_POOLS)[number];

const MAX_SERVER_PROCESSES = 256;

/**
 * The settings of one service process, validated at start and frozen. The decorators define which values are allowed;
 * names, defaults and descriptions are in `SETTING_KEYS`. Inject it by this class, or as
 * `@Inject(settingsConfig.KEY) settings: ConfigType<typeof settingsConfig>`.
 */
export class Settings {
  /** Address to listen on. */
  @IsString()
  @Matches(/^[A-Za-z0-9._:%-]{1,255}$/)
  readonly host: string;

  /** TCP port; 0 lets the system choose. */
  @IsInt()
  @Min(0)
  @Max(65_535)
  readonly port: number;

  /** Restart on changed sources. */
  @IsBoolean()
  readonly reload: boolean;

  /** Number of server processes; with more than one, `src/cluster` runs them. */
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

  /** Path as given, relative to the working directory unless absolute. */
  @IsString()
  @IsNotEmpty()
  @Matches(/^\P{Cc}+$/u)
  readonly dataDir: string;

  /** Secret. Empty when SERVICE_API_KEYS is unset. */
  @Transform(({ value }) => parseApiKeys(value))
  @HasApiKeys()
  readonly apiKeys: readonly ApiKeySetting[];

  /** Name of a strategy; whether it is known is checked where strategies are registered. */
  @IsString()
  @Matches(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
  readonly scheduler: string;

  /** Paths of JavaScript files, separated by commas; whether they can be used is seen when they are loaded. */
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

  /** Worker losses that a run survives. */
  @IsInt()
  @Min(0)
  @Max(1000)
  readonly maxReclaims: number;

  /** False: no feeds, events are on their timelines only. */
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

  /** Bytes of text and line ends. The least is such that every line fits into half of it. */
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

  /** At least 2: the migrations' lock occupies one connection while another one works. */
  @IsInt()
  @Min(2)
  @Max(1000)
  readonly dbPoolSize: number;

  /**
   * Undefined is memory for one process and shared for several; memory is refused with several, because each process
   * would know its own workers only and reclaim the runs of the others.
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
