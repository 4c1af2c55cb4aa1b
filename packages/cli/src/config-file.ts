import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { CliError, EXIT } from './cli-error.js';

/** The login that `longshore login` saves. */
export interface SavedLogin {
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
