import { bodyOf, sender } from '../lib/http.mjs';
import { driveRounds } from '../lib/load.mjs';
import { KEY, startService } from '../lib/service.mjs';

export const title = 'Single requests';
export const about =
  'One kind of request at a time from 64 clients: creates, events on one run, heartbeats by both kinds of pool, reads.';

/** One row for every kind. */
export async function measure({ seconds }) {
  const rows = [];
  for (const [pool, kinds] of [
    ['memory', ['create', 'append', 'heartbeat', 'read']],
    ['shared', ['heartbeat']],
  ]) {
    const service = await startService({ SERVICE_WORKER_POOL: pool });
    const { send, close } = sender(service.url, KEY, 1);
    try {
      for (const scenario of kinds) {
        const { id: runId } = bodyOf(await send('POST', '/runs', { image: 'i' }));
        const label = pool === 'shared' ? `${scenario}, shared pool` : scenario;
        const load = { scenario, clients: 64, seconds, options: { runId } };
        rows.push({ label, rounds: await driveRounds(service.url, load) });
      }
    } finally {
      close();
      await service.stop();
    }
  }
  return rows;
}
