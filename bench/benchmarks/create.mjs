import { bareLike, loadSubject } from '../lib/load/beside-bare.mjs';
import { goalLine, ratio } from '../lib/pages/figures.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { CREATE } from '../lib/load/scenarios.mjs';
import { startService } from '../lib/servers/service.mjs';

export const title = 'Runs created';
export const about =
  'POST /runs with 500 B of inputs, and what a request costs in CPU of the server process (PostgreSQL not counted). ' +
  'Beside it a bare node:http server that reads and parses the same bodies and answers the same bytes to the same generator.';

export const plots = [
  { title: 'CPU of a POST /runs in the server process', figure: 'cpuUs' },
  { title: 'Requests a second', figure: 'perSecond' },
];

const SERVICE = '64 clients';
const BARE = 'bare node:http, 64 clients';

/** One row for the service, from few and many clients, and one for the bare server. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    const bare = await keep(bareLike(service, ['POST', '/runs', CREATE]));
    return inTurn([
      subject('1 client', service, { clients: 1, seconds }),
      subject(SERVICE, service, { clients: 64, seconds }),
      subject('256 clients', service, { clients: 256, seconds }),
      subject(BARE, bare, { clients: 64, seconds }),
    ]);
  });
}

function subject(label, server, load) {
  return loadSubject(label, server, { scenario: 'create', ...load });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (label) => rows.find((row) => row.label === label);
  return [
    goalLine(
      'CPU of POST /runs in the server process to a bare node:http request',
      ratio(find(SERVICE), find(BARE), 'cpuUs'),
      {
        atMost: 5,
      },
    ),
  ];
}
