// `npm run worker`: the worker.
import { buildAndRun } from './build-and-run.mjs';

await buildAndRun('packages/worker/dist/main.js', ['libraries', 'clients']);
