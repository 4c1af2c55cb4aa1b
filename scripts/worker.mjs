// `npm run worker`: the worker.
import { become } from './become.mjs';

await become('packages/worker/dist/main.js', ['libraries', 'clients']);
