/* oxlint-disable no-console -- for commands for the terminal */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Builds the parts that have changed, then runs a program of the build in this process, so that a signal reaches it
 * whether it is sent to npm, to the process group or to the program.
 * @param {string} program its compiled main file below the project's folder
 * @param {string[] | undefined} parts what the program needs of the build; undefined: all
 * @param {(line: string) => void} [say] prints the progress of the build; default: to standard error, because standard
 *   output belongs to the program
 */
export async function buildAndRun(program, parts, say = (line) => console.error(line)) {
  const main = join(ROOT, program);
  const abort = new AbortController();
  let building = true;

  /** Ends the process until the program listens for signals itself. */
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
    if (existsSync(join(ROOT, 'src'))) await buildIfNeeded({ parts, signal: abort.signal, say });
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
