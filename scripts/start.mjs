// `npm start -- [flags]`: the service.
import { buildAndRun } from './build-and-run.mjs';
import { SERVICE_PARTS } from './build-if-needed.mjs';

await buildAndRun('dist/src/main.js', SERVICE_PARTS);
