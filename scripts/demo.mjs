/* oxlint-disable no-console -- a command for the terminal */
// `npm run demo [-- --exit]`: the demo, whose output begins with the build.
import { buildAndRun } from './build-and-run.mjs';

await buildAndRun('dist/demo/main.js', undefined, (line) => console.log(line));
