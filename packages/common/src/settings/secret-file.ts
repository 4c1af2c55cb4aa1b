import { readFileSync } from 'node:fs';
import { SettingsError } from './setting.js';

/**
 * The value of a variable that holds a secret: its own, or the content of the file that `NAME_FILE` names, without blanks around
 * it. An empty variable counts as unset.
 * @throws SettingsError when both are set, or the file cannot be read or is empty
 */
export function readSecret(env: Readonly<NodeJS.ProcessEnv>, name: string): string | undefined {
  const value = env[name] || undefined;
  const path = secretFile(env, name);
  if (path === undefined) return value;
  if (value !== undefined) throw new SettingsError([`${name} and ${name}_FILE are set; unset one of them`]);
  let content: string;
  try {
    content = readFileSync(path, 'utf8').trim();
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'it is no text';
    throw new SettingsError([`the file ${path} of ${name}_FILE cannot be read: ${reason}`]);
  }
  if (content === '') throw new SettingsError([`the file ${path} of ${name}_FILE is empty`]);
  return content;
}

/** The file with the value of a variable; undefined when the variable has none. */
export function secretFile(env: Readonly<NodeJS.ProcessEnv>, name: string): string | undefined {
  return env[`${name}_FILE`] || undefined;
}
