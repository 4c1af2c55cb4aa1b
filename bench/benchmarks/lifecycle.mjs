import { driveRounds } from '../lib/load.mjs';
import { startService } from '../lib/service.mjs';

export const title = 'Whole lifecycles over HTTP';
export const about =
  'create, claim, STARTED, COMPLETED, one request each, 500 B of inputs and of outputs; a step is the four requests.';

/** One row for every number of clients, with and without a topic that all runs share. */
export async function measure({ seconds }) {
  const rows = [];
  for (const topic of [null, 'hot']) {
    const service = await startService();
    try {
      for (const clients of [1, 16, 64, 256]) {
        const load = { scenario: 'lifecycle', clients, seconds, options: { topic } };
        const label = `${clients} clients${topic === null ? '' : ', one topic'}`;
        rows.push({ label, rounds: await driveRounds(service.url, load) });
      }
    } finally {
      await service.stop();
    }
  }
  return rows;
}
