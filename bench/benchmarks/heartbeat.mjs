import { bareLike, loadSubject } from '../lib/load/beside-bare.mjs';
import { goalLine, ratio } from '../lib/pages/figures.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { heartbeatOf } from '../lib/load/scenarios.mjs';
import { startService } from '../lib/servers/service.mjs';

export const title = 'Heartbeats';
export const about =
  'POST /workers/heartbeat of 64 workers, each from a client of its own, with the pool of workers in memory and with the ' +
  'one that several server processes share. Beside it a bare node:http server that reads and parses the same bodies and ' +
  'answers the same bytes to the same generator. CPU is that of the server process.';

export const plots = [{ title: 'Heartbeats a second', figure: 'perSecond' }];

const SERVICE = 'pool in memory';
const BARE = 'bare node:http';

/** One row for each kind of pool, and one for the bare server. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const memory = await keep(startService({ SERVICE_WORKER_POOL: 'memory' }));
    const shared = await keep(startService({ SERVICE_WORKER_POOL: 'shared' }));
    const bare = await keep(bareLike(memory, ['POST', '/workers/heartbeat', heartbeatOf('w')]));
    const load = { scenario: 'heartbeat', clients: 64, seconds };
    return inTurn([
      loadSubject(SERVICE, memory, load),
      loadSubject('shared pool', shared, load),
      loadSubject(BARE, bare, load),
    ]);
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (label) => rows.find((row) => row.label === label);
  return [
    goalLine(
      'Heartbeats a second, one process, to a bare node:http server',
      ratio(find(SERVICE), find(BARE)),
      {
        atLeast: 0.25,
      },
    ),
  ];
}
