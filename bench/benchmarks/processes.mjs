import { driveRounds } from '../lib/load.mjs';
import { startService } from '../lib/service.mjs';

export const title = 'One and two server processes';
export const about = 'Lifecycles from 64 clients, by SERVICE_WORKERS=1 and SERVICE_WORKERS=2, alternating.';

/** One row for each number of processes; the rounds of both alternate, so that noise meets both. */
export async function measure({ seconds }) {
  const rows = [1, 2].map((workers) => ({
    label: `${workers} process${workers > 1 ? 'es' : ''}`,
    workers,
    rounds: [],
  }));
  for (let round = 0; round < 3; round += 1) {
    for (const row of rows) {
      const service = await startService({ SERVICE_WORKERS: String(row.workers) });
      try {
        const load = { scenario: 'lifecycle', clients: 64, seconds };
        row.rounds.push(...(await driveRounds(service.url, load, 1)));
      } finally {
        await service.stop();
      }
    }
  }
  return rows.map(({ label, rounds }) => ({ label, rounds }));
}
