// `npm start -- [flags]`: the service.
import { become } from './become.mjs';

await become('dist/src/main.js');
