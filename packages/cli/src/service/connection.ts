import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { readSecret } from '@longshore/common/settings/secret-file';
import { SettingsError } from '@longshore/common/settings/setting';
import { CliError, EXIT, usageError } from '../cli-error.js';

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
 * Flags take precedence over SERVICE_URL and SERVICE_API_KEY (or SERVICE_API_KEY_FILE), and these over the saved login. A saved key is used only for
 * the service it was saved for.
 * @throws CliError when there is no key or the URL is none
 */
export function chooseConnection(
  flags: ConnectionFlags,
  env: NodeJS.ProcessEnv,
  kept: SavedLogin | undefined,
): Connection {
  const url = chooseUrl(flags, env, kept);
  const apiKey = flags.key ?? keyOfEnvironment(env) ?? (kept?.url === url ? kept.apiKey : undefined);
  if (apiKey === undefined) {
    throw usageError(`no API key for ${url}: run "longshore login", set SERVICE_API_KEY or give --key`);
  }
  return { url, apiKey: checkKey(apiKey) };
}

/** The key of SERVICE_API_KEY, or of the file that SERVICE_API_KEY_FILE names. @throws CliError for both, or a file without a key */
export function keyOfEnvironment(env: NodeJS.ProcessEnv): string | undefined {
  try {
    return readSecret(env, 'SERVICE_API_KEY');
  } catch (error) {
    throw error instanceof SettingsError ? usageError(error.message) : error;
  }
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

/** The login that `longshore login` saves. */
interface SavedLogin {
  readonly url: string;
  readonly apiKey: string;
}

/** `longshore/config.json` below XDG_CONFIG_HOME, or below `~/.config`. */
export function configPath(env: NodeJS.ProcessEnv): string {
  const given = env['XDG_CONFIG_HOME'];
  // The specification of the variable has relative paths ignored.
  const base = given !== undefined && isAbsolute(given) ? given : join(env['HOME'] || homedir(), '.config');
  return join(base, 'longshore', 'config.json');
}

/**
 * Reads the saved login.
 * @returns undefined when there is none
 * @throws CliError when the file is not as `saveLogin` writes it, or others can read it
 */
export async function readLogin(env: NodeJS.ProcessEnv): Promise<SavedLogin | undefined> {
  const path = configPath(env);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
    const { mode } = await stat(path);
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      throw new CliError(
        EXIT.usage,
        `${path} holds a key and others can read it: chmod 600 it, or log in again`,
      );
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  const login = parse(text);
  if (login === undefined) throw new CliError(EXIT.usage, `${path} cannot be read: log in again`);
  return login;
}

/** Saves a login for this user alone (mode 600), replacing the previous one. @returns the file */
export async function saveLogin(env: NodeJS.ProcessEnv, { url, apiKey }: SavedLogin): Promise<string> {
  const path = configPath(env);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const next = `${path}.${process.pid}`;
  try {
    await writeFile(next, `${JSON.stringify({ url, api_key: apiKey }, null, 2)}\n`, { mode: 0o600 });
    await chmod(next, 0o600);
    await rename(next, path);
  } finally {
    await rm(next, { force: true });
  }
  return path;
}

/** Deletes the saved login. @returns whether there was one */
export async function deleteLogin(env: NodeJS.ProcessEnv): Promise<boolean> {
  try {
    await rm(configPath(env));
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}

function parse(text: string): SavedLogin | undefined {
  try {
    const content: unknown = JSON.parse(text);
    if (typeof content !== 'object' || content === null) return undefined;
    if (!('url' in content) || !('api_key' in content)) return undefined;
    const { url, api_key: apiKey } = content;
    return typeof url === 'string' && typeof apiKey === 'string' ? { url, apiKey } : undefined;
  } catch {
    return undefined;
  }
}
