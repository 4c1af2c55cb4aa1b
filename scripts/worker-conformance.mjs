// `npm run worker:conformance -- --command "..."`: puts a worker to the test.
import { become } from './become.mjs';

await become('packages/conformance/dist/main.js', ['libraries', 'clients']);
