import { hostname } from 'node:os';

/** Everything the worker is told from outside. */
export interface AgentSettings {
  /** Without a slash at the end. */
  readonly serviceUrl: string;
  readonly apiKey: string;
  readonly workerId: string;
  readonly tags: readonly string[];
  readonly tickSeconds: number;
  /** Null: Docker when an engine answers, else processes. */
  readonly runtime: 'docker' | 'process' | null;
  /** Folder of example images for the runtime `process`; null when not given. */
  readonly imagesDir: string | null;
  /** Seconds that runs may go on after the worker was told to end. */
  readonly drainSeconds: number;
  /** Seconds of silence after which the service gives a worker up, until the service says so itself. */
  readonly workerTimeoutSeconds: number;
  /** Runs at once; null: as many as there are CPU cores. */
  readonly maxRuns: number | null;
  /** File that says until when the service takes this worker for alive; null: none. */
  readonly healthFile: string | null;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
}

/** The settings cannot be used. `problems` holds one line per wrong setting, without any secret. */
export class AgentSettingsError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'AgentSettingsError';
  }
}

const WORKER_ID = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;
const LOG_LEVELS: ReadonlyMap<string, AgentSettings['logLevel']> = new Map([
  ['debug', 'debug'],
  ['info', 'info'],
  ['warning', 'warn'],
  ['error', 'error'],
]);

/**
 * Reads the worker's settings from the environment; an empty variable counts as unset.
 * @param host the machine's name, from which the default worker id is made
 * @throws AgentSettingsError with a line for every wrong setting, not only the first
 */
export function loadAgentSettings(env: NodeJS.ProcessEnv, host: string = hostname()): AgentSettings {
  const reader = new SettingReader(env);
  const settings: AgentSettings = {
    serviceUrl: reader.read('SERVICE_URL', 'http://127.0.0.1:5555', readServiceUrl, {
      allowed: 'an http:// or https:// URL without user name, query and fragment',
      // A URL may hold a password.
      secret: env['SERVICE_URL']?.includes('@') === true,
    }),
    apiKey: reader.read('SERVICE_API_KEY', '', readApiKey, {
      allowed: 'an API key with the scope worker, in visible ASCII characters',
      secret: true,
      required: true,
    }),
    workerId: reader.read('SERVICE_WORKER_ID', workerIdOf(host), readWorkerId, {
      allowed: '1 to 128 characters of A-Z a-z 0-9 . _ - : /, the first one a letter or digit',
    }),
    tags: reader.read('SERVICE_WORKER_TAGS', [], readTags, {
      allowed: 'a comma-separated list of up to 100 tags of up to 128 characters',
    }),
    tickSeconds: reader.readSeconds('SERVICE_WORKER_TICK', 2, 0.05, 3600),
    runtime: reader.read('SERVICE_WORKER_RUNTIME', null, readRuntime, { allowed: 'docker or process' }),
    imagesDir: reader.read('SERVICE_WORKER_IMAGES_DIR', null, (text) => text, { allowed: 'a path' }),
    drainSeconds: reader.readSeconds('SERVICE_WORKER_DRAIN', 30, 0, 86_400),
    workerTimeoutSeconds: reader.readSeconds('SERVICE_WORKER_TIMEOUT', 60, 0.1, 86_400),
    maxRuns: reader.read('SERVICE_WORKER_MAX_RUNS', null, readMaxRuns, {
      allowed: 'an integer from 1 to 1024',
    }),
    healthFile: reader.read('SERVICE_WORKER_HEALTH_FILE', null, (text) => text, { allowed: 'a path' }),
    logLevel: reader.read('SERVICE_LOG_LEVEL', 'info', (text) => LOG_LEVELS.get(text), {
      allowed: 'debug, info, warning or error',
    }),
  };
  if (reader.problems.length > 0) throw new AgentSettingsError(reader.problems);
  return settings;
}

/** Makes a worker id of a machine's name, whatever characters that has. */
export function workerIdOf(host: string): string {
  const id = host
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 128);
  return id === '' ? 'worker' : id;
}

interface Rule {
  /** Worded to follow "must be". */
  readonly allowed: string;
  readonly secret?: boolean;
  readonly required?: boolean;
}

class SettingReader {
  readonly problems: string[] = [];

  constructor(private readonly env: NodeJS.ProcessEnv) {}

  /** @returns the fallback when the variable is unset, and when it is wrong, which is noted as a problem */
  read<T>(name: string, fallback: T, parse: (text: string) => T | undefined, rule: Rule): T {
    const text = this.env[name];
    if (text === undefined || text === '') {
      if (rule.required === true) this.problems.push(`${name} must be set to ${rule.allowed}`);
      return fallback;
    }
    const value = parse(text);
    if (value !== undefined) return value;
    const got = rule.secret === true ? ' (the value is not shown)' : `, got ${quote(text)}`;
    this.problems.push(`${name} must be ${rule.allowed}${got}`);
    return fallback;
  }

  readSeconds(name: string, fallback: number, min: number, max: number): number {
    const parse = (text: string) => {
      const value = /^\d{1,9}(?:\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : undefined;
    };
    return this.read(name, fallback, parse, { allowed: `a number of seconds from ${min} to ${max}` });
  }
}

function readApiKey(text: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
}

function readServiceUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain || !['http:', 'https:'].includes(url.protocol)) return undefined;
  return url.href.replace(/\/+$/, '');
}

function readWorkerId(text: string): string | undefined {
  return WORKER_ID.test(text) ? text : undefined;
}

function readTags(text: string): readonly string[] | undefined {
  const tags = text
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
  const isFine = tags.length <= 100 && tags.every((tag) => tag.length <= 128 && !/\p{Cc}/u.test(tag));
  return isFine ? [...new Set(tags)] : undefined;
}

function readRuntime(text: string): 'docker' | 'process' | undefined {
  return text === 'docker' || text === 'process' ? text : undefined;
}

function readMaxRuns(text: string): number | undefined {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 1024 ? count : undefined;
}

/** A value as a problem shows it: short, on one line. */
function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}
