import { goalLine, ratio } from '../lib/pages/figures.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { inTurn, ROUNDS, withOpen } from '../lib/rounds.mjs';
import { startService } from '../lib/servers/service.mjs';

export const title = 'One and two server processes';
export const about =
  'Lifecycles, and heartbeats to the shared pool, from 64 clients, by SERVICE_WORKERS=1 and SERVICE_WORKERS=2, in turn. ' +
  'With the load generator and PostgreSQL on the same cores, a second process has none of its own.';

const KINDS = ['lifecycle', 'heartbeat'];

/** One row for each number of processes and kind of load. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const subjects = [];
    for (const workers of [1, 2]) {
      const env = { SERVICE_WORKERS: String(workers), SERVICE_WORKER_POOL: 'shared' };
      const { url } = await keep(startService(env));
      for (const scenario of KINDS) {
        const load = { scenario, clients: 64, seconds };
        subjects.push({
          label: labelOf(workers, scenario),
          warmUp: () => warmUp(url, load),
          round: () => drive(url, load),
        });
      }
    }
    return inTurn(subjects, ROUNDS);
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (workers, kind) => rows.find(({ label }) => label === labelOf(workers, kind));
  return [
    goalLine(
      'Lifecycles a second by two server processes to those by one, both with the shared pool',
      ratio(find(2, 'lifecycle'), find(1, 'lifecycle')),
      { atLeast: 1 },
    ),
  ];
}

function labelOf(workers, kind) {
  return `${kind}, ${workers} process${workers > 1 ? 'es' : ''}`;
}
