import { goalLine } from '../lib/figures.mjs';
import { bodyOf, sender } from '../lib/http.mjs';
import { drive, warmUp } from '../lib/load.mjs';
import { KEY } from '../lib/service.mjs';
import { withConnections } from '../seed/database.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Claims';
export const about =
  'POST /workers/{id}/claim, 100 a second from 16 workers, each claimed run completed and another created: beside 1 k to ' +
  '5 M pending runs of five priorities, beside 10 M finished ones, after lifecycles of 64 clients without a pause (deleted ' +
  'rows at the head of the queue), and the same while another connection holds a snapshot that keeps vacuum from cleaning. ' +
  'Only the claim is timed. Rounds alternate with those of a service with 1 k pending runs, which the last figure compares with.';
export const figures = { timesP99: { title: 'p99, times 1 k', unit: '' } };

const PENDING = [100_000, 1_000_000, 5_000_000];
const FINISHED = 10_000_000;
const LEAST = 1_000;
const ROUNDS = 3;

/** Churn lasts so many rounds: ten minutes of eight seconds each. */
const CHURN = 75;

/** Lifecycles go on for so long at most before their workers report anew, in seconds. */
const STRETCH_S = 40;

/** One row for every queue and state of it. */
export async function measure({ seconds }) {
  const reference = await startSeeded({ finished: 0, pending: LEAST });
  const load = { scenario: 'claim', clients: 16, seconds, rate: 100 };
  const least = { label: '1 k pending', rounds: [] };
  const rows = [least];
  const add = async (label, service) => {
    const rounds = [];
    for (const { url } of [reference, service]) await warmUp(url, load);
    for (let round = 0; round < ROUNDS; round += 1) {
      const beside = await drive(reference.url, load);
      const figure = await drive(service.url, load);
      least.rounds.push({ ...beside, timesP99: 1 });
      rounds.push({ ...figure, timesP99: figure.p99 / beside.p99 });
    }
    rows.push({ label, rounds });
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

/** Against the figure at 1 k. */
export function goals(rows) {
  return rows.slice(1).map(({ label, figures: { timesP99 } }) =>
    goalLine(`claim p99, ${label}, against 1 k pending`, timesP99.median, {
      atMost: label.endsWith('long transaction') ? 2 : 1.2,
    }),
  );
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
