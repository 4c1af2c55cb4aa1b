// `npm run worker`: the worker.
import { become } from './become.mjs';

await become('agent/main.js');
