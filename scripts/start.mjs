// `npm start -- [flags]`: the service.
import { become } from './become.mjs';
import { SERVICE_PARTS } from './build-if-needed.mjs';

await become('dist/src/main.js', SERVICE_PARTS);
