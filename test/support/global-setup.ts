import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { compileTestPrograms } from './programs/test-programs.js';
import { startTestCluster } from './test-cluster.js';

/** What unit tests need of the build: packages whose programs they start as processes. */
const UNIT_PARTS = ['libraries', 'clients'];

/**
 * Builds what has changed and, but for unit tests, starts the PostgreSQL of the test run, once for all projects.
 * TEST_DATABASE_URL names another one.
 */
export async function setup({ name }: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (process.env['LONGSHORE_TESTS_PREPARED'] !== undefined) return undefined;
  const parts = name === 'unit' ? UNIT_PARTS : [];
  execFileSync(process.execPath, [join('scripts', 'build-if-needed.mjs'), ...parts], { stdio: 'inherit' });
  if (name === 'unit') return undefined;
  process.env['LONGSHORE_TESTS_PREPARED'] = 'true';
  await compileTestPrograms();
  if (process.env['TEST_DATABASE_URL'] !== undefined) return undefined;
  const cluster = await startTestCluster();
  process.env['TEST_DATABASE_URL'] = cluster.url;
  return () => cluster.stop();
}
