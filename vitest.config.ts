import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseEnv } from 'node:util';
import { defineConfig } from 'vitest/config';

const TIER = (process.env['LONGSHORE_TEST_TIER'] ??= 'fast');

// Settings of the person who runs the tests must not change what they see. Those of a .env file are set to the empty
// string, which the service takes for unset.
const SETTINGS = /^(?:SERVICE_|OTEL_|DATABASE_URL$)/;
const ofFile = existsSync('.env') ? Object.keys(parseEnv(readFileSync('.env', 'utf8'))) : [];
for (const name of Object.keys(process.env)) if (SETTINGS.test(name)) delete process.env[name];
for (const name of ofFile) if (SETTINGS.test(name)) process.env[name] = '';

export default defineConfig({
  // Packages of this repository are tested from their sources.
  resolve: {
    alias: [
      { find: /^@longshore\/client$/, replacement: `${import.meta.dirname}/packages/client/src/client.ts` },
      {
        find: /^@longshore\/embedded-postgres$/,
        replacement: `${import.meta.dirname}/packages/embedded-postgres/src/embedded-postgres.ts`,
      },
      {
        find: /^@longshore\/([a-z-]+)\/(?!package\.json)(.+)$/,
        replacement: `${import.meta.dirname}/packages/$1/src/$2.ts`,
      },
    ],
  },
  test: {
    pool: 'forks',
    // Files share a process, and so the time to load Nest and the service: each restores what it changes.
    isolate: false,
    // Tests wait for the database, so one process more than there are processors keeps those busy.
    maxWorkers: availableParallelism() + 1,
    // Not for the usual case, but for a machine that is busy with other things.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
    setupFiles: ['test/support/setup-file.ts'],
    reporters: ['default', './test/support/plain-reporter.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          globalSetup: ['test/support/build-packages.ts'],
          include: ['src/**/*.spec.ts', 'packages/*/src/**/*.spec.{ts,tsx}', 'demo/**/*.spec.ts'],
        },
      },
      ...['integration', 'api'].map((name) => ({
        extends: true as const,
        test: {
          name,
          include: [`test/${name === 'integration' ? '{integration,history}' : name}/**/*.spec.ts`],
          globalSetup: ['test/support/global-setup.ts'],
        },
      })),
      {
        extends: true,
        test: {
          name: 'e2e',
          include: [TIER === 'fast' ? 'test/e2e/**/smoke.spec.ts' : 'test/e2e/**/*.spec.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
