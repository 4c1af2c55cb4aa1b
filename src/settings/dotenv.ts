import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';

/**
 * Adds the variables of `<directory>/.env` to `env` when that file exists. A variable that `env` already has,
 * even an empty one, stays as it is: the real environment wins over the file.
 * @throws Error of `node:fs` when the file exists but cannot be read.
 */
export function loadDotenv(directory: string = process.cwd(), env: NodeJS.ProcessEnv = process.env): void {
  const path = join(directory, '.env');
  if (!existsSync(path)) {
    return;
  }
  for (const [name, value] of Object.entries(parseEnv(readFileSync(path, 'utf8')))) {
    env[name] ??= value;
  }
}
