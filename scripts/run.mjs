/* oxlint-disable no-console -- for commands for the terminal */
// `node scripts/run.mjs PROGRAM [argument ...]`: builds what a program of this project needs, then runs it.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BuildError, buildIfNeeded, isProgram, SERVICE_PARTS } from './build-if-needed.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const CLIENT_PARTS = ['libraries', 'clients'];
const PROGRAMS = {
  service: { main: 'dist/src/main.js', parts: SERVICE_PARTS },
  demo: { main: '.build/demo/demo/main.js' },
  worker: { main: 'packages/worker/dist/main.js', parts: CLIENT_PARTS },
  cli: { main: 'packages/cli/dist/main.js', parts: CLIENT_PARTS },
  conformance: { main: 'packages/conformance/dist/main.js', parts: CLIENT_PARTS },
};

/**
 * Builds the parts that have changed, then runs the program in this process, so that a signal reaches it whether it is
 * sent to npm, to the process group or to the program. The progress of the build goes to standard error, because
 * standard output belongs to the program.
 * @param {keyof typeof PROGRAMS} name
 */
export async function buildAndRun(name) {
  const main = join(ROOT, PROGRAMS[name].main);
  const abort = new AbortController();
  let isBuilding = true;
  // This one, and that of the lock of the build, which does nothing where another one listens.
  const own = process.listenerCount('SIGTERM') + 1;

  /** Ends the process until the program listens for signals itself. */
  function stopEarly(signal) {
    if (process.listenerCount(signal) > own) return;
    abort.abort();
    if (!isBuilding) process.exit(0);
  }

  process.on('SIGTERM', stopEarly);
  process.on('SIGINT', stopEarly);
  try {
    // The packed package holds what was built, and no sources.
    if (existsSync(join(ROOT, 'src'))) {
      await buildIfNeeded({
        parts: PROGRAMS[name].parts,
        signal: abort.signal,
        say: (line) => console.error(line),
      });
    }
  } catch (error) {
    if (abort.signal.aborted) process.exit(0);
    console.error(error instanceof BuildError ? error.message : error);
    process.exit(1);
  }
  isBuilding = false;
  process.argv[1] = main;
  await import(pathToFileURL(main).href);
}

if (isProgram(import.meta.url)) {
  const [name] = process.argv.splice(2, 1);
  await buildAndRun(name);
}
