/* oxlint-disable no-console -- a command for the terminal */
// `node bench/seed/main.mjs DATA_DIR FINISHED PENDING [EVENTS]`: fills the service's data folder, which must be new.
// `DATABASE_URL=... node bench/seed/main.mjs - FINISHED PENDING [EVENTS]`: fills a migrated database.
import { FILLING, withDatabase } from './database.mjs';
import { fill } from './seed.mjs';

const [dataDir, finished, pending, events = '3'] = process.argv.slice(2);
if (dataDir === undefined || !(Number(finished) >= 0) || !(Number(pending) >= 0)) {
  console.error('usage: node bench/seed/main.mjs DATA_DIR|- FINISHED PENDING [EVENTS]');
  process.exit(2);
}
const shape = {
  finished: Number(finished),
  pending: Number(pending),
  events: Number(events),
  say: (line) => console.log(line),
};
if (dataDir === '-') await fill(process.env.DATABASE_URL, shape);
else await withDatabase(dataDir, FILLING, (_connect, url) => fill(url, shape));
