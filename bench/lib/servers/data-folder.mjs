import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Makes a data folder that the account of PostgreSQL can enter: otherwise, for root, the cluster would lie outside it
 * and stay behind.
 * @returns its path, and how to remove it with all that is in it
 */
export async function makeDataFolder() {
  const path = await mkdtemp(join(tmpdir(), 'longshore-bench-'));
  await chmod(path, 0o755);
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 5 }) };
}
