// Runs several compiled specs in one process: `node scripts/run-specs.mjs dist/a.spec.js dist/b.spec.js`.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

for (const path of process.argv.slice(2)) {
  await import(pathToFileURL(join(import.meta.dirname, '..', path)).href);
}
