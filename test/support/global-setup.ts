import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { compileTestPrograms } from './programs/test-programs.js';
import { startTestCluster } from './test-cluster.js';

/** Builds what has changed and starts the PostgreSQL of a test run, once for all projects; TEST_DATABASE_URL names another. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env['LONGSHORE_TESTS_PREPARED'] !== undefined) return undefined;
  process.env['LONGSHORE_TESTS_PREPARED'] = 'true';
  execFileSync(process.execPath, [join('scripts', 'build-if-needed.mjs')], { stdio: 'inherit' });
  await compileTestPrograms();
  if (process.env['TEST_DATABASE_URL'] !== undefined) return undefined;
  const cluster = await startTestCluster();
  process.env['TEST_DATABASE_URL'] = cluster.url;
  return () => cluster.stop();
}
