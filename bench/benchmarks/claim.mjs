import { goalLine } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { comparePooled, drive } from '../lib/load/load.mjs';
import { KEY } from '../lib/servers/service.mjs';
import { withConnections } from '../seed/database.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Claims';
export const about =
  'POST /workers/{id}/claim, 100 a second from 16 workers, each claimed run completed and another created: beside 1 k to ' +
  '5 M pending runs of five priorities, beside 10 M finished ones, after lifecycles of 64 clients without a pause (deleted ' +
  'rows at the head of the queue), and the same while another connection holds a snapshot that keeps vacuum from cleaning. ' +
  'Only the claim is timed. In each of five rounds the service takes turns of a few seconds with one that has 1 k pending ' +
  'runs; quantiles are of all claims of a round, and the last figures divide them by those beside 1 k in the same round.';
export const figures = {
  timesP50: { title: 'p50, times 1 k', unit: '' },
  timesP95: { title: 'p95, times 1 k', unit: '' },
  timesP99: { title: 'p99, times 1 k', unit: '' },
};

const PENDING = [100_000, 1_000_000, 5_000_000];
const FINISHED = 10_000_000;
const LEAST = 1_000;
const ROUNDS = 5;
const SPELLS = 4;

/** Length of the churn, in lengths of a round. */
const CHURN = 20;

/** Lifecycles go on for so long at most before their workers report anew, in seconds. */
const STRETCH_S = 40;

/** One row for every queue and state of it. */
export async function measure({ seconds }) {
  const reference = await startSeeded({ finished: 0, pending: LEAST });
  const load = { scenario: 'claim', clients: 16, seconds: Math.max(1, seconds / SPELLS), rate: 100 };
  const least = { label: '1 k pending', rounds: [] };
  const rows = [least];
  const add = async (label, service) => {
    const compared = await comparePooled(
      { url: service.url, load },
      { url: reference.url, load },
      { rounds: ROUNDS, spells: SPELLS },
    );
    least.rounds.push(...compared.map(({ besideFigures }) => besideFigures));
    rows.push({ label, rounds: compared.map((round) => round.figures) });
  };
  try {
    for (const pending of sizesOf(PENDING)) {
      const service = await startSeeded({ finished: 0, pending });
      try {
        await add(`${inWords(pending)} pending`, service);
        if (pending < 1_000_000 && !process.env.BENCH_SIZES) continue;
        await churn(service.url, seconds * CHURN);
        await add(`${inWords(pending)} pending, after churn`, service);
      } finally {
        await service.stop();
      }
    }
    const aged = await startSeeded({ finished: process.env.BENCH_SIZES ? 10_000 : FINISHED });
    try {
      await enqueue(aged.url, LEAST);
      await add('1 k pending, beside the finished', aged);
      await churn(aged.url, seconds * CHURN);
      await add('the same, after churn', aged);
      await withConnections(aged.databaseUrl, async (connect) => {
        const long = await connect();
        await long.query('begin isolation level repeatable read');
        await long.query('select 1 from runs limit 1');
        await churn(aged.url, seconds * CHURN);
        await add('the same, in a long transaction', aged);
        await long.query('rollback');
      });
    } finally {
      await aged.stop();
    }
  } finally {
    await reference.stop();
  }
  return rows;
}

/** Medians of the rounds, against 1 k. */
export function goals(rows) {
  return rows.slice(1).flatMap(({ label, figures: { timesP50, timesP99 } }) => {
    const limit = { atMost: label.endsWith('long transaction') ? 2 : 1.2 };
    return [
      goalLine(`claim p50, ${label}, against 1 k pending`, timesP50.median, limit),
      goalLine(`claim p99, ${label}, against 1 k pending`, timesP99.median, limit),
    ];
  });
}

async function churn(url, seconds) {
  for (let left = seconds; left > 0; left -= STRETCH_S) {
    await drive(url, { scenario: 'lifecycle', clients: 64, seconds: Math.min(left, STRETCH_S) });
  }
}

async function enqueue(url, count) {
  const { send, close } = sender(url, KEY, 1);
  try {
    for (let n = 0; n < count; n += 1) bodyOf(await send('POST', '/runs', { image: 'i', priority: n % 5 }));
  } finally {
    close();
  }
}
