import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from './data-source.js';
import type { DatabaseSettings } from './data-source.js';
import { codeOf, isDatabaseUnavailable } from './unavailable.js';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

export interface ConnectOptions {
  /** How long to go on trying while the server is away or starting, in milliseconds. */
  readonly timeoutMs: number;
  /** Called before each new attempt with the reason of the last failure; holds no password. */
  readonly onRetry?: (reason: string) => void;
}

/** The database could not be connected to; its message names the server without any password. */
export class DatabaseConnectError extends Error {
  override readonly name = 'DatabaseConnectError';

  constructor(
    message: string,
    /** Code of the last failure: an SQLSTATE or a code of Node's. */
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

/**
 * Connects, trying again while the server is starting or out of reach, and answers the initialised data source.
 * What trying again cannot mend (a wrong password, a database that does not exist, a malformed URL) ends it at once.
 * @throws DatabaseConnectError
 */
export async function connectDatabase(
  settings: DatabaseSettings,
  options: ConnectOptions,
): Promise<DataSource> {
  const deadline = Date.now() + options.timeoutMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const dataSource = new DataSource(dataSourceOptions(settings));
    let failure: unknown;
    try {
      return await dataSource.initialize();
    } catch (error) {
      failure = error;
      // A pool that was opened before the failure is nobody's now; there may be none.
      await dataSource.driver.disconnect().catch(() => undefined);
    }
    const reason = withoutPassword(reasonOf(failure), settings.url);
    const mayPass = isDatabaseUnavailable(failure);
    if (!mayPass || Date.now() + pause > deadline) {
      const within = mayPass ? ` within ${options.timeoutMs / 1000} s` : '';
      // The failure itself is not passed on as a cause: such errors carry the URL in their fields.
      throw new DatabaseConnectError(
        `Cannot connect to the database ${describeUrl(settings.url)}${within}: ${reason}`,
        codeOf(failure),
      );
    }
    options.onRetry?.(reason);
    await sleep(pause);
  }
}

/** The URL without password and parameters, for messages and logs. */
export function describeUrl(url: string): string {
  try {
    const { protocol, username, host, pathname, searchParams } = new URL(url);
    const socket = searchParams.get('host');
    const user = username === '' ? '' : `${username}@`;
    return `${protocol}//${user}${host}${pathname}${socket === null ? '' : ` (host ${socket})`}`;
  } catch {
    return '(its URL is malformed)';
  }
}

function reasonOf(error: unknown): string {
  // Several addresses of one host were tried: the error as a whole has no message.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}

function withoutPassword(text: string, url: string): string {
  return passwordsOf(url).reduce(
    (clean, password) => clean.replaceAll(password, '***'),
    text.replaceAll(url, '***'),
  );
}

/** Every spelling of the password in the URL, also of a URL that does not parse. */
function passwordsOf(url: string): string[] {
  const raw = /^[^:]*:\/\/[^/@]*?:(.*)@/.exec(url)?.[1] ?? '';
  const parameter = /[?&]password=([^&]*)/.exec(url)?.[1] ?? '';
  return [raw, parameter, decoded(raw), decoded(parameter)].filter((password) => password !== '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
