import { setTimeout as sleep } from 'node:timers/promises';
import { goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { ROUNDS } from '../lib/rounds.mjs';
import { KEY } from '../lib/servers/service.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

const [SCHEDULES] = sizesOf([10_000]);

export const title = 'Schedules';
export const about =
  `${inWords(SCHEDULES)} schedules are due at once: the time from then until each has its run. Meanwhile 16 workers claim other runs, ` +
  '100 a second, each of which is completed and another created. Claims alone are measured on the same service, in turns; beside schedules, ' +
  'these are due again as soon as all have been fired, until the claims end.';
export const figures = {
  firedS: { title: 'all fired', unit: 's' },
  perSecond: { title: 'fired', unit: '/s' },
  timesP99: { title: 'p99, times alone', unit: '' },
};

const ALONE = 'claims alone';
const BESIDE = 'claims beside schedules';
const FIRED = 'schedules';

/** Clients that store the schedules. */
const WRITERS = 16;

/** All schedules are due; every process of the service is told, as by a request that stores one. */
const ALL_DUE = `
  delete from schedule_fires;
  update schedules set next_at = date_trunc('day', now(), 'UTC'), due_at = now();
  select pg_notify('longshore_commit', '{"scheduleInMs": 0}')`;

export async function measure({ seconds }) {
  const service = await startSeeded({ finished: 0, pending: 1_000 });
  const load = { scenario: 'claim', clients: 16, seconds, rate: 100 };
  const [alone, beside, fired] = [[], [], []];
  try {
    await store(service.url);
    await fireAll(service);
    await warmUp(service.url, load);
    for (let n = 0; n < ROUNDS; n += 1) {
      alone.push(await drive(service.url, load));
      const end = new AbortController();
      const driven = drive(service.url, load).finally(() => end.abort());
      while (!end.signal.aborted) {
        const firedS = await fireAll(service);
        fired.push({ firedS, perSecond: SCHEDULES / firedS });
      }
      beside.push(await driven);
    }
  } finally {
    await service.stop();
  }
  return [
    { label: FIRED, rounds: fired },
    { label: ALONE, rounds: alone },
    { label: BESIDE, rounds: beside.map((round, n) => ({ ...round, timesP99: round.p99 / alone[n].p99 })) },
  ];
}

/** Medians of the rounds. */
export function goals(rows) {
  const [fired, alone, beside] = [FIRED, ALONE, BESIDE].map((label) => rowOf(rows, label));
  return [
    goalLine(
      `${inWords(SCHEDULES)} schedules due at once`,
      fired.figures.firedS.median,
      { atMost: 30 },
      ' s',
    ),
    goalLine('claim p99 of other runs, against without', ratio(beside, alone, 'p99'), { atMost: 1.5 }),
  ];
}

/** Schedules that are due once a day. */
async function store(url) {
  const { send, close } = sender(url, KEY, WRITERS);
  const body = {
    every_s: 86_400,
    overlap: 'allow',
    run: { image: 'i', inputs: { day: '${schedule.date}' }, selector: ['other'] },
  };
  let next = 0;
  const write = async () => {
    while (next < SCHEDULES) bodyOf(await send('PUT', `/schedules/due-${next++}`, body));
  };
  try {
    await Promise.all(Array.from({ length: WRITERS }, write));
  } finally {
    close();
  }
}

/** @returns seconds until all schedules have been fired */
async function fireAll({ query }) {
  await query(ALL_DUE);
  const began = performance.now();
  let left;
  do {
    await sleep(50);
    [{ left }] = await query('select count(*)::integer as left from schedules where next_at <= now()');
  } while (left > 0);
  return (performance.now() - began) / 1000;
}
