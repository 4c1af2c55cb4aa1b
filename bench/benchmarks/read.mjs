import { bareLike, loadSubject } from '../lib/beside-bare.mjs';
import { bodyOf, sender } from '../lib/http.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/service.mjs';

export const title = 'Reads';
export const about =
  'From 64 clients: GET of one run with 500 B of inputs and a timeline of ten events; the same timeline by ' +
  'GET /runs/{id}/events, whole and where nothing is new; a page of 100 events of a feed. Lists are in a benchmark of ' +
  'their own. CPU is that of the server process; the bare node:http server answers the bytes of the GET of the run.';

const TOPIC = 'read';
const EVENTS = 10;

/** One row for every kind of request. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    const runId = await prepare(service.url);
    const run = `/runs/${runId}`;
    const bare = await keep(bareLike(service, ['GET', run]));
    return inTurn([
      subject('GET run', service, run, seconds),
      subject('poll events, all ten', service, `${run}/events`, seconds),
      subject('poll events, nothing new', service, `${run}/events?after=${EVENTS - 1}`, seconds),
      subject('feed page of 100', service, `/feed?topic=${TOPIC}&limit=100`, seconds),
      subject('bare node:http', bare, run, seconds),
    ]);
  });
}

function subject(label, server, path, seconds) {
  return loadSubject(label, server, { scenario: 'read', clients: 64, seconds, options: { path } });
}

/** Ten runs with ten events each on one topic; answers the id of one. */
async function prepare(url) {
  const { send, close } = sender(url, KEY, 1);
  try {
    let runId;
    for (let n = 0; n < 10; n += 1) {
      const create = { image: 'i', inputs: { filler: 'x'.repeat(480) }, event_delivery: { topic: TOPIC } };
      const { id } = bodyOf(await send('POST', '/runs', create));
      for (let event = 0; event < EVENTS; event += 1) {
        const note = { type: 'NOTE', msg: 'n', payload: { filler: 'x'.repeat(52) } };
        bodyOf(await send('POST', `/runs/${id}/events`, note));
      }
      runId = id;
    }
    return runId;
  } finally {
    close();
  }
}
