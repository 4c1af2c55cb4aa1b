/* oxlint-disable no-console -- for commands for the terminal */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Builds when needed, then becomes a program of the build. The program runs in this very process, so a signal that
 * reaches it through npm, through the process group or directly is the same signal.
 * @param {string} program its compiled main file below the project's folder
 * @param {(line: string) => void} [say] where the build says what it does; default: standard error, because standard
 *   output belongs to the program
 */
export async function become(program, say = (line) => console.error(line)) {
  const main = join(ROOT, program);
  const abort = new AbortController();
  let building = true;

  /** Ends a start that has not come to the program yet; once the program listens for signals, they are its own. */
  function stopEarly(signal) {
    if (process.listenerCount(signal) > 1) {
      return;
    }
    abort.abort();
    if (!building) {
      process.exit(0);
    }
  }

  process.on('SIGTERM', stopEarly);
  process.on('SIGINT', stopEarly);
  try {
    // The packed package holds what was built, and no sources.
    if (existsSync(join(ROOT, 'src'))) await buildIfNeeded({ signal: abort.signal, say });
  } catch (error) {
    if (abort.signal.aborted) {
      process.exit(0);
    }
    console.error(error instanceof BuildError ? error.message : error);
    process.exit(1);
  }
  building = false;
  process.argv[1] = main;
  await import(pathToFileURL(main).href);
}
