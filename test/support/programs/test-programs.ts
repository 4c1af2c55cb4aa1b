import { dirname, join } from 'node:path';

const SUPPORT = dirname(import.meta.dirname);

/** Programs of the tests that plain Node runs as processes, compiled by {@link compileTestPrograms}. */
export const TEST_PROGRAMS = join(dirname(dirname(SUPPORT)), '.build', 'test-programs');

const SOURCES = ['embedded-postgres-process.ts', 'http/attacks.ts', 'postgres/tcp-proxy-process.ts'];

/** Compiles the programs, each to `NAME.js`; done once per test run. */
export async function compileTestPrograms(): Promise<void> {
  // Not at the top: the programs import this file, and run where vite is not installed.
  const { build } = await import('vite');
  await build({
    configFile: false,
    root: SUPPORT,
    logLevel: 'warn',
    // Packages are loaded as production loads them.
    ssr: { external: true },
    build: {
      ssr: true,
      outDir: TEST_PROGRAMS,
      emptyOutDir: true,
      minify: false,
      rolldownOptions: { input: SOURCES.map((path) => join(SUPPORT, path)) },
    },
  });
}
