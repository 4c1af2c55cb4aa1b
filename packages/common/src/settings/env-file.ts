import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { SettingsError } from './setting.js';

/**
 * Parses a file of environment variables by the rules of `docker run --env-file`: one `NAME=VALUE` in each line; the value is the
 * rest of the line as it is, quotes and `#` included. Blank lines, and lines whose first character is `#`, are comments. A line
 * with a name alone takes the variable's value from the environment, and sets nothing if it has none. The last line with a name
 * wins. A byte order mark is ignored.
 * @param file names the file in errors
 * @param nameProblem says what is wrong with a name besides; undefined: nothing
 * @throws SettingsError with a line for every wrong line, by its number and without its text, which may be a secret
 */
export function parseEnvFile(
  bytes: Buffer,
  file: string,
  env: Readonly<NodeJS.ProcessEnv>,
  nameProblem: (name: string) => string | undefined = () => undefined,
): Record<string, string> {
  const variables = new Map<string, string>();
  const problems: string[] = [];
  for (const [index, raw] of bytes.toString('latin1').split('\n').entries()) {
    const line = Buffer.from(raw, 'latin1');
    // trimStart removes a byte order mark as well.
    const text = line.toString().replace(/\r$/, '').trimStart();
    if (text === '' || text.startsWith('#')) continue;
    const end = text.indexOf('=');
    const name = end < 0 ? text : text.slice(0, end);
    const problem = problemOf(line, name) ?? nameProblem(name);
    if (problem !== undefined) problems.push(`${file}, line ${index + 1}: ${problem}`);
    else {
      const value = end < 0 ? env[name] : text.slice(end + 1);
      if (value !== undefined) variables.set(name, value);
    }
  }
  if (problems.length > 0) throw new SettingsError(problems);
  return Object.fromEntries(variables);
}

function problemOf(line: Buffer, name: string): string | undefined {
  if (!isUtf8(line)) return 'it is not UTF-8 text';
  if (line.includes(0)) return 'it has a NUL character';
  if (name === '') return 'there is no name before =';
  return /\s/.test(name) ? 'the name of the variable has white space' : undefined;
}

/**
 * Adds the variables of `.env` in the working directory to `process.env`. A variable that the environment has already,
 * even an empty one, keeps its value. Does nothing when there is no such file.
 * @throws SettingsError for a wrong line, Error of `node:fs` when the file exists but cannot be read
 */
export function loadEnvFile(): void {
  let bytes: Buffer;
  try {
    bytes = readFileSync('.env');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw error;
  }
  const { env } = process;
  Object.assign(env, { ...parseEnvFile(bytes, '.env', env), ...env });
}
