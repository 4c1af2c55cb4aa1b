// `npm run worker:conformance -- --command "..."`: puts a worker to the test.
import { buildAndRun } from './build-and-run.mjs';

await buildAndRun('packages/conformance/dist/main.js', ['libraries', 'clients']);
