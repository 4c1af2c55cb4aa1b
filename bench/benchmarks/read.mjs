import { bareLike, loadSubject } from '../lib/load/beside-bare.mjs';
import { goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

export const title = 'Reads';
export const about =
  'From 64 clients, which read 640 runs in turn: GET of a run with 500 B of inputs and a timeline of ten events, whole, ' +
  'without its events, and by If-None-Match where it has not changed (304); the same timeline by GET /runs/{id}/events, ' +
  'whole and where nothing is new; a page of 100 events of a feed; beside them POST /runs with 500 B of inputs. Lists are ' +
  'in a benchmark of their own. CPU is that of the server process; the bare node:http server answers the bytes of the GET ' +
  'of a run.';

const TOPIC = 'read';
const RUNS = 640;
const EVENTS = 10;

const GET = 'GET run';
const NOTHING_NEW = 'poll events, nothing new';
const FEED = 'feed page of 100';
const POST = 'POST /runs';
const BARE = 'bare node:http';

/** One row for every kind of request. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    const runs = (await createRunsToRead(service.url)).map((id) => `/runs/${id}`);
    const bare = await keep(bareLike(service, ['GET', runs[0]]));
    const reading = (label, server, paths, options = {}) =>
      loadSubject(label, server, { scenario: 'read', clients: 64, seconds, options: { paths, ...options } });
    return inTurn([
      reading(GET, service, runs),
      reading('GET run without events', service, after(runs, '?include_events=false')),
      reading('GET run, not changed', service, runs, { conditional: true }),
      reading('poll events, all ten', service, after(runs, '/events')),
      reading(NOTHING_NEW, service, after(runs, `/events?after=${EVENTS - 1}`)),
      reading(FEED, service, [`/feed?topic=${TOPIC}&limit=100`]),
      loadSubject(POST, service, { scenario: 'create', clients: 64, seconds }),
      reading(BARE, bare, runs),
    ]);
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const cpuOf = (label) => rowOf(rows, label).figures.cpuUs?.median ?? Number.NaN;
  const run = rowOf(rows, GET);
  return [
    goalLine('GET of a run to POST /runs', ratio(run, rowOf(rows, POST)), { atLeast: 1 }),
    goalLine('CPU of GET of a run to a bare node:http request', ratio(run, rowOf(rows, BARE), 'cpuUs'), {
      atMost: 8,
    }),
    goalLine('CPU of a poll of events with nothing new', cpuOf(NOTHING_NEW), { atMost: 100 }, ' µs'),
    goalLine('CPU of a feed page of 100', cpuOf(FEED), { atMost: 400 }, ' µs'),
  ];
}

function after(paths, suffix) {
  return paths.map((path) => path + suffix);
}

/** Runs with ten events each, ten of them on one topic; answers their ids. */
export async function createRunsToRead(url) {
  const { send, close } = sender(url, KEY, 64);
  try {
    return await Promise.all(
      Array.from({ length: RUNS }, async (_, n) => {
        const delivery = n < 10 ? { event_delivery: { topic: TOPIC } } : {};
        const create = { image: 'i', inputs: { filler: 'x'.repeat(480) }, ...delivery };
        const { id } = bodyOf(await send('POST', '/runs', create));
        for (let event = 0; event < EVENTS; event += 1) {
          const note = { type: 'NOTE', msg: 'n', payload: { filler: 'x'.repeat(52) } };
          bodyOf(await send('POST', `/runs/${id}/events`, note));
        }
        return id;
      }),
    );
  } finally {
    close();
  }
}
