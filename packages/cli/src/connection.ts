import { usageError } from './cli-error.js';
import type { SavedLogin } from './config-file.js';

/** Default URL of the service. */
const DEFAULT_URL = 'http://127.0.0.1:5555';

/** Flags that name the service and the key. */
export interface ConnectionFlags {
  readonly url?: string | undefined;
  readonly key?: string | undefined;
}

/** URL of the service and API key. */
export interface Connection {
  /** Without a slash at the end. */
  readonly url: string;
  readonly apiKey: string;
}

/**
 * Flags take precedence over SERVICE_URL and SERVICE_API_KEY, and these over the saved login. A saved key is used only for
 * the service it was saved for.
 * @throws CliError when there is no key or the URL is none
 */
export function chooseConnection(
  flags: ConnectionFlags,
  env: NodeJS.ProcessEnv,
  kept: SavedLogin | undefined,
): Connection {
  const url = chooseUrl(flags, env, kept);
  const apiKey =
    flags.key ?? (env['SERVICE_API_KEY'] || undefined) ?? (kept?.url === url ? kept.apiKey : undefined);
  if (apiKey === undefined) {
    throw usageError(`no API key for ${url}: run "longshore login", set SERVICE_API_KEY or give --key`);
  }
  return { url, apiKey: checkKey(apiKey) };
}

/** URL of the service from flags, environment or saved login. @throws CliError for an invalid URL */
export function chooseUrl(
  flags: Pick<ConnectionFlags, 'url'>,
  env: NodeJS.ProcessEnv,
  kept: SavedLogin | undefined,
): string {
  return readUrl(flags.url ?? (env['SERVICE_URL'] || undefined) ?? kept?.url ?? DEFAULT_URL);
}

/** @returns the URL without a slash at the end @throws CliError when it is none that a service can have */
export function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url?.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (url === undefined || !isPlain || !['http:', 'https:'].includes(url.protocol)) {
    throw usageError(
      'the URL of the service must be http:// or https:// without user name, query and fragment',
    );
  }
  return url.href.replace(/\/+$/, '');
}

/** @throws CliError for a key that is invalid in a header; the message does not show the key */
export function checkKey(key: string): string {
  if (!/^[\x21-\x7e]+$/.test(key)) throw usageError('an API key has visible ASCII characters only');
  return key;
}
