import { config } from 'dotenv';

/**
 * Adds the variables of `.env` in the working directory to `process.env`. A variable that the environment has already,
 * even an empty one, keeps its value. Does nothing when there is no such file.
 * @throws Error of `node:fs` when the file exists but cannot be read
 */
export function loadEnvFile(): void {
  const { error } = config({ path: '.env', quiet: true });
  if (error !== undefined && error.code !== 'ENOENT') throw error;
}
