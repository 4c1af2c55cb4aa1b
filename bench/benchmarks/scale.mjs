import { goalLine } from '../lib/figures.mjs';
import { drive, warmUp } from '../lib/load.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Beside history';
export const about =
  'Whole lifecycles, creates, events, heartbeats and reads from 64 clients, beside 1 k to 10 M finished runs with three ' +
  'events each. The last figure compares with the smallest history.';
export const figures = { times: { title: 'times the smallest', unit: '' } };

const SIZES = [1_000, 100_000, 1_000_000, 10_000_000];
const ROUNDS = 3;

/** One row for every kind of request and size. */
export async function measure({ seconds }) {
  const rows = [];
  for (const size of sizesOf(SIZES)) {
    const service = await startSeeded({ finished: size });
    try {
      const [old] = await service.query('select id from runs order by id offset $1 limit 1', [
        Math.min(size / 2, 10_000),
      ]);
      const kinds = [
        { name: 'lifecycle', scenario: 'lifecycle', options: {} },
        { name: 'lifecycle, one topic', scenario: 'lifecycle', options: { topic: 'topic-0' } },
        { name: 'append', scenario: 'append', options: {} },
        { name: 'heartbeat', scenario: 'heartbeat', options: {} },
        { name: 'read an old run', scenario: 'read', options: { path: `/runs/${old.id}` } },
        { name: 'poll its events', scenario: 'read', options: { path: `/runs/${old.id}/events` } },
        { name: 'feed page of 100', scenario: 'read', options: { path: '/feed?topic=topic-0&limit=100' } },
        { name: 'create', scenario: 'create', options: {} },
      ];
      for (const { name, scenario, options } of kinds) {
        const load = { scenario, clients: 64, seconds, options };
        const rounds = [];
        await warmUp(service.url, load);
        for (let round = 0; round < ROUNDS; round += 1) rounds.push(await drive(service.url, load));
        rows.push({ label: `${name}, ${inWords(size)}`, name, size, rounds });
      }
    } finally {
      await service.stop();
    }
  }
  return rows.map((row) => {
    const least = rows.find(({ name }) => name === row.name);
    const rounds = row.rounds.map((round, n) => ({
      ...round,
      times: round.perSecond / least.rounds[n].perSecond,
    }));
    return { ...row, rounds };
  });
}

/** Nothing gets slower as history grows; a tenth is what rounds differ by anyway. */
export function goals(rows) {
  const biggest = Math.max(...rows.map(({ size }) => size));
  return rows
    .filter(({ size }) => size === biggest)
    .map(({ name, figures: { times } }) =>
      goalLine(`${name}, beside ${inWords(biggest)} runs, times the smallest`, times.median, {
        atLeast: 0.9,
      }),
    );
}
