import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { stoppedAtTheEnd } from '../lib/servers/leftovers.mjs';
import { ROOT } from '../lib/root.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';
import { quantile } from '../lib/pages/stats.mjs';

const WRITERS = 64;
/** More than of other benchmarks: the processes of a round compete for few cores, so that rounds differ. */
const ROUNDS = 8;

export const title = 'One hot topic';
export const about =
  '64 writers, each with a run of its own, send single events with Prefer: return=minimal as fast as they are answered; ' +
  'all runs name one topic. The lag is the time from the acknowledgement of an event to its arrival at a reader (negative ' +
  'when it arrives first), of every 16th event at every reader. Lost and doubled events are counted at every reader, all of them. ' +
  'Half of the readers have a stream open, half poll with wait=30. Writers and readers are processes of their own, new in ' +
  'every round; their first second is not measured.';
export const figures = {
  perSecond: { title: 'events', unit: '/s' },
  lagP50: { title: 'lag p50', unit: 'ms' },
  lagP99: { title: 'lag p99', unit: 'ms' },
  lost: { title: 'lost', unit: '' },
  doubled: { title: 'doubled', unit: '' },
  cpuUs: { title: 'CPU of the service an event', unit: 'µs' },
};

const LABELS = new Map([
  [0, 'no readers'],
  [2, '2 readers'],
  [100, '100 readers'],
]);

/** @param rows as measured */
export function goals(rows) {
  const { figures: at } = rowOf(rows, LABELS.get(100));
  const share = ratio(rowOf(rows, LABELS.get(100)), rowOf(rows, LABELS.get(0)));
  return [
    goalLine('events with 100 readers, of those without', share, { atLeast: 0.8 }),
    goalLine('lag p99 with 100 readers', at.lagP99.median, { atMost: 250 }, ' ms'),
    goalLine('lost or doubled with 100 readers', at.lost.median + at.doubled.median, { atMost: 0 }, ''),
  ];
}

/** One row for each number of readers. */
export function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    return await inTurn(
      [...LABELS].map(([readers, label]) => ({
        label,
        warmUp: () => driveOnce(service, readers, 1),
        round: () => driveOnce(service, readers, seconds),
      })),
      ROUNDS,
    );
  });
}

let topics = 0;

async function driveOnce(service, readers, seconds) {
  topics += 1;
  const task = { url: service.url, key: KEY, topic: `hot-${topics}` };
  const reading = readers === 0 ? null : start('feed-readers');
  const ready = reading?.answer();
  reading?.child.send({ ...task, writers: WRITERS, streams: readers / 2, polls: readers / 2 });
  await ready;
  const writing = start('feed-writers');
  const begun = writing.answer();
  writing.child.send({ ...task, writers: WRITERS, seconds });
  await begun;
  const before = await service.cpuSeconds();
  const { acknowledged, began, elapsed } = await writing.answer();
  const cpu = (await service.cpuSeconds()) - before;
  const total = acknowledged.reduce((sum, times) => sum + times.length, 0);
  const measured = acknowledged.flatMap((times) => [...times].filter((at) => at >= began)).length;
  const read = reading?.answer();
  reading?.child.send({ total });
  const { lost, doubled, timed } = (await read) ?? { timed: [] };
  const lags = timed.flatMap((pairs) => lagsOf(pairs, acknowledged, began));
  return {
    perSecond: measured / elapsed,
    ...(readers === 0 ? {} : { lagP50: quantile(lags, 0.5), lagP99: quantile(lags, 0.99), lost, doubled }),
    cpuUs: (cpu * 1e6) / measured,
  };
}

function lagsOf(pairs, acknowledged, began) {
  const lags = [];
  for (let n = 0; n < pairs.length; n += 2) {
    const number = pairs[n];
    const at = acknowledged[number % WRITERS][Math.floor(number / WRITERS)];
    if (at >= began) lags.push(pairs[n + 1] - at);
  }
  return lags;
}

/** Starts a program of lib in a process of its own; `answer` is its next message. */
function start(name) {
  const child = fork(join(ROOT, 'bench/lib/load', `${name}.mjs`), { serialization: 'advanced' });
  const stop = stoppedAtTheEnd(async () => void child.kill());
  const gone = once(child, 'exit').then(([code, signal]) => {
    void stop();
    throw new Error(`${name} ended (${signal ?? code}) without an answer`);
  });
  gone.catch(() => undefined);
  const answer = async () => {
    const [message] = await Promise.race([once(child, 'message'), gone]);
    return message;
  };
  return { child, answer };
}
