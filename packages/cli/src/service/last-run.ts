import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { isJsonObject } from '@longshore/common/json/json-value';

/** `longshore/last-run.json` below XDG_STATE_HOME, or below `~/.local/state`; undefined without a home. */
function lastRunPath(env: NodeJS.ProcessEnv): string | undefined {
  const given = env['XDG_STATE_HOME'];
  const home = env['HOME'] || env['USERPROFILE'];
  const base = given !== undefined && isAbsolute(given) ? given : home && join(home, '.local', 'state');
  return base ? join(base, 'longshore', 'last-run.json') : undefined;
}

/** Keeps the last run that was created at a service. A command does not depend on it: without a place to write, nothing is kept. */
export async function keepLastRun(url: string, id: string, env: NodeJS.ProcessEnv): Promise<void> {
  const path = lastRunPath(env);
  if (path === undefined) return;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, `${JSON.stringify({ url, id })}\n`, { mode: 0o600 });
  } catch {
    // A folder that cannot be written.
  }
}

/** The last run that was created; undefined: none at this service. */
export async function readLastRun(url: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  try {
    const kept: unknown = JSON.parse(await readFile(lastRunPath(env) ?? '', 'utf8'));
    return isJsonObject(kept) && kept['url'] === url && typeof kept['id'] === 'string'
      ? kept['id']
      : undefined;
  } catch {
    return undefined;
  }
}
