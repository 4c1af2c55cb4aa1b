import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT } from '../service-process.js';
import { skipFor } from '../skip.js';

/** Folder of the generators and linters that users of the API description have, with a package.json of its own. */
export const OPENAPI_TOOLS = join(PROJECT, 'test', 'openapi-tools');

/** Folder of their commands. */
export const OPENAPI_BIN = join(OPENAPI_TOOLS, 'node_modules', '.bin');

/** Options of tests that need them. In the gate they have to be there. */
export const NO_OPENAPI_TOOLS = skipFor(
  !existsSync(OPENAPI_BIN) &&
    process.env['CI'] !== 'true' &&
    'no tools for OpenAPI: npm ci --prefix test/openapi-tools',
);
