import { goalLine, ratio } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { rawSubjects } from '../lib/servers/peers.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

export const title = 'Events appended';
export const about =
  'POST /runs/{id}/events with an event that is only recorded, from 64 clients, each on a run of its own, and all on ' +
  'the same run. Beside it raw SQL on the same tables: 100 events, on 100 runs, in one statement and one commit; and one ' +
  'statement an event from many connections, which is what a service does that commits for each request.';

const OWN = '64 clients, a run each';
const GROUPS = 'raw SQL, groups of 100';
const SINGLE = 'raw SQL, one statement an event, a run each';

/** One row for every way. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    const runId = await createRun(service.url);
    const subject = (label, options) => {
      const load = { scenario: 'append', clients: 64, seconds, options };
      return {
        label,
        warmUp: () => warmUp(service.url, load),
        round: () => drive(service.url, load),
      };
    };
    const raw = await rawSubjects(keep, seconds, [
      { label: GROUPS, kind: 'append', size: 100, lanes: [1, 2, 4] },
      { label: SINGLE, kind: 'append', size: 1, lanes: [8, 32, 64] },
      {
        label: 'raw SQL, one statement an event, one run',
        kind: 'append',
        size: 1,
        lanes: [4, 32],
        shared: true,
      },
    ]);
    return inTurn([subject(OWN, {}), subject('64 clients, one run', { runId }), ...raw]);
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (label) => rows.find((row) => row.label === label);
  return [
    goalLine('Events appended, 64 clients, to raw SQL in groups of 100', ratio(find(OWN), find(GROUPS)), {
      atLeast: 0.4,
    }),
    goalLine('Events appended, 64 clients, to one statement an event', ratio(find(OWN), find(SINGLE)), {
      atLeast: 4,
    }),
  ];
}

async function createRun(url) {
  const { send, close } = sender(url, KEY, 1);
  try {
    const { id } = bodyOf(await send('POST', '/runs', { image: 'i' }));
    return id;
  } finally {
    close();
  }
}
