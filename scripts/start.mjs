// `npm start -- [flags]`: the service.
import { become } from './become.mjs';

await become('main.js');
