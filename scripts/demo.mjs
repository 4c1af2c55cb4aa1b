/* oxlint-disable no-console -- a command for the terminal */
// `npm run demo [-- --exit]`: builds when needed, then becomes the demo. The demo runs in this very process, so a
// signal that reaches it through npm, through the process group or directly is the same signal.
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';

const main = join(dirname(dirname(fileURLToPath(import.meta.url))), 'dist', 'src', 'demo', 'main.js');
const abort = new AbortController();

/** Ends a start that has not come to the demo yet; once the demo listens for signals, they are its own. */
function stopEarly(signal) {
  if (process.listenerCount(signal) > 1) {
    return;
  }
  abort.abort();
  if (!building) {
    process.exit(0);
  }
}

let building = true;
process.on('SIGTERM', stopEarly);
process.on('SIGINT', stopEarly);
try {
  await buildIfNeeded({ signal: abort.signal });
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
