import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** `fast` (npm test), `all` (npm run test:all) or `soak`; a file that is named on the command line runs in each. */
const TIER = (process.env['LONGSHORE_TEST_TIER'] ??= 'fast');
const NAMES_FILES = process.argv.slice(2).some((word) => /^[^-].*(?:\/|\.tsx?$)/.test(word));

/** Outside the tier `fast`: what waits or computes for long by design (outages, crashes, load, limits in time). */
const SLOW = [
  'test/e2e/*/**',
  'test/api/conformance/8-limits.spec.ts',
  'test/api/auth/key-propagation.spec.ts',
  'test/api/feed/feed-stream.spec.ts',
  'test/api/logs/run-log-reading.spec.ts',
  'test/api/monitoring/{monitoring-files,outage,refusing-database}.spec.ts',
  'test/api/description/openapi-proxy.spec.ts',
  'test/api/races.spec.ts',
  'test/api/workers/{capacity,claim-wait,reclaim}.spec.ts',
  'test/api/runs/{list-by-worker-and-end,shared-reads}.spec.ts',
  'test/integration/database/migrate.spec.ts',
  'test/integration/database/promotion{,-check}.spec.ts',
  'test/integration/database/unfit-databases.spec.ts',
  'test/integration/embedded-postgres/embedded-postgres{,-crash,-placement}.spec.ts',
  'test/integration/feed/feed-{cache,idle,order}.spec.ts',
  'test/integration/feed/restored-feed.spec.ts',
  'test/integration/groups/{fan-in-races,group-shapes,taken-over}.spec.ts',
  'test/integration/http/http-edge-budgets.spec.ts',
  'test/integration/journal/bulk-{outage,races}.spec.ts',
  'test/integration/queue/{claim-idle,idle-claims,low-water-marks,lane-flatness}.spec.ts',
  'test/integration/runs/{bulk-operations,list-plans,pagination,run-log-races,run-timeouts,wait-idle}.spec.ts',
  'test/integration/webhooks/delivery.spec.ts',
  'test/integration/workers/reaper-{passes,races,schedule}.spec.ts',
];

/** End-to-end tests that load the machine and measure what it does, run Patroni, or use the machine's one Kubernetes. */
const ALONE = [
  'test/e2e/database/{database-overload,failover,failover-behind}.spec.ts',
  'test/e2e/engines/kubernetes-real-*.spec.ts',
  'test/e2e/service/{attacks,event-loop,run-log-flood,run-logs}.spec.ts',
];

// Settings of the person who runs the tests must not change what they see. Those of a .env file are set to the empty
// string, which the service takes for unset.
const SETTINGS = /^(?:SERVICE_|OTEL_|AWS_|DATABASE_URL$)/;
const linesOfFile = existsSync('.env') ? readFileSync('.env', 'utf8').split('\n') : [];
const ofFile = linesOfFile.map((line) => line.trim().replace(/=.*/s, ''));
for (const name of Object.keys(process.env)) if (SETTINGS.test(name)) delete process.env[name];
for (const name of ofFile) if (SETTINGS.test(name)) process.env[name] = '';

const root = import.meta.dirname;
const prepared = { globalSetup: ['test/support/global-setup.ts'] };

export default defineConfig({
  // Packages of this repository are tested from their sources.
  resolve: {
    alias: [
      { find: /^@longshore\/client$/, replacement: `${root}/packages/client/src/client.ts` },
      {
        find: /^@longshore\/embedded-postgres$/,
        replacement: `${root}/packages/embedded-postgres/src/embedded-postgres.ts`,
      },
      {
        find: /^@longshore\/([a-z-]+)\/(?!package\.json)(.+)$/,
        replacement: `${root}/packages/$1/src/$2.ts`,
      },
    ],
  },
  test: {
    pool: 'forks',
    // For the tests that measure what is kept in memory.
    execArgv: ['--expose-gc'],
    // Files share a process, and so the time to load Nest and the service: each restores what it changes.
    isolate: false,
    // Projects share what is transformed, and so do runs.
    experimental: { fsModuleCache: true },
    maxWorkers: availableParallelism(),
    // Not for the usual case, but for a machine that is busy with other things.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    teardownTimeout: 60_000,
    exclude: TIER === 'fast' && !NAMES_FILES ? SLOW : [],
    setupFiles: ['test/support/setup-file.ts'],
    reporters: ['default', './test/support/plain-reporter.ts'],
    coverage: {
      provider: 'v8',
      reporter: ['text-summary', 'html'],
      include: ['src/**/*.ts', 'packages/*/src/**/*.{ts,tsx}'],
      exclude: ['**/*.spec.*', '**/*.fixtures.ts', '**/testing/**', 'packages/client/src/schema.ts'],
    },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.spec.ts', 'packages/*/src/**/*.spec.{ts,tsx}', 'demo/**/*.spec.ts'],
          ...prepared,
        },
      },
      {
        extends: true,
        test: { name: 'integration', include: ['test/{history,integration}/**/*.spec.ts'], ...prepared },
      },
      { extends: true, test: { name: 'api', include: ['test/api/**/*.spec.ts'], ...prepared } },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.spec.ts'],
          exclude: ALONE,
          ...prepared,
          // Two for each core: they mostly wait, for processes, engines and browsers.
          maxWorkers: 2 * availableParallelism(),
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e-alone',
          include: ALONE,
          ...prepared,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
