// `npm run worker:conformance -- --command "..."`: checks a worker against the worker protocol.
import { buildAndRun } from './build-and-run.mjs';

await buildAndRun('packages/conformance/dist/main.js', ['libraries', 'clients']);
