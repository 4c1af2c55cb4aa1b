import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { dataSourceOptions, type DatabaseSettings } from './data-source.js';
import { currentUrl } from './failover/database-servers.js';
import { DEFAULT_PORT, parseDatabaseUrl, type ServerAddress } from './failover/database-url.js';
import { codeOf, isTransient } from './failover/unavailable.js';
import { errorText } from '@longshore/common/errors';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** The message names the server without any password. */
export class DatabaseConnectError extends Error {
  override readonly name = 'DatabaseConnectError';

  constructor(
    message: string,
    /** SQLSTATE or Node.js code of the last failure. */
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

/**
 * Connects, and retries while the server is starting or unreachable. Other errors (wrong password, unknown database,
 * malformed URL) are not retried.
 * @param timeoutMs timeout of all attempts together
 * @param onRetry called before each retry with the last failure, without any password
 * @returns the initialised data source
 * @throws DatabaseConnectError
 */
export async function connectDatabase(
  settings: DatabaseSettings,
  { timeoutMs, onRetry }: { readonly timeoutMs: number; readonly onRetry?: (reason: string) => void },
): Promise<DataSource> {
  const deadline = Date.now() + timeoutMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    let dataSource: DataSource | undefined;
    let failure: unknown;
    try {
      dataSource = new DataSource(dataSourceOptions(settings));
      return await dataSource.initialize();
    } catch (error) {
      failure = error;
      // Closes the pool if it was opened.
      await dataSource?.driver.disconnect().catch(() => undefined);
    }
    const url = currentUrl(settings.url);
    const reason = withoutPassword(reasonOf(failure), url);
    const isPassing = isTransient(failure);
    if (!isPassing || Date.now() + pause > deadline) {
      const within = isPassing ? ` within ${timeoutMs / 1000} s` : '';
      // Without a cause: such errors contain the URL.
      throw new DatabaseConnectError(
        `Cannot connect to the database ${describeUrl(url)}${within}: ${reason}`,
        codeOf(failure),
      );
    }
    onRetry?.(reason);
    await sleep(pause);
  }
}

/** The URL without password and parameters, for messages and logs. */
export function describeUrl(url: string): string {
  try {
    const parsed = parseDatabaseUrl(url);
    const hosts = parsed.servers.filter((server) => !isSocket(server)).map(addressOf);
    const sockets = parsed.servers.filter(isSocket).map(({ host }) => ` (host ${host})`);
    const user = parsed.user === undefined ? '' : `${parsed.user}@`;
    return `postgres://${user}${hosts.join()}/${parsed.database ?? ''}${sockets.join('')}`;
  } catch {
    return '(its URL is malformed)';
  }
}

function isSocket({ host }: ServerAddress): boolean {
  return host.startsWith('/');
}

function addressOf({ host, port }: ServerAddress): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return port === DEFAULT_PORT ? name : `${name}:${port}`;
}

function reasonOf(error: unknown): string {
  // Of several addresses of one host; has no message itself.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ');
  return errorText(error);
}

function withoutPassword(text: string, url: string): string {
  return passwordsOf(url).reduce(
    (clean, password) => clean.replaceAll(password, '***'),
    text.replaceAll(url, '***'),
  );
}

/** Every spelling of the password in the URL, which may be malformed. */
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
