// graphile-worker in process: jobs are added and its own runner takes and completes them. Started with the URL of a
// fresh database.
import { EventEmitter, once } from 'node:events';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { answerOrders, findBest, warmUpMs } from './answer.mjs';

/** How long the jobs that a round leaves behind may take, in milliseconds. */
const DRAIN_MS = 60_000;

const PAYLOAD = { image: 'i', filler: 'x'.repeat(480) };
const OUTPUT = { filler: 'x'.repeat(480) };
const TASK = 'work';

const connectionString = process.argv[2];
const logger = new Logger(() => (level, message) => {
  if (level === 'error') process.stderr.write(`graphile-worker: ${message}\n`);
});
const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 16 });
await utils.migrate();

/** It keeps no outputs: what a task returns is dropped, and the row of a completed job is deleted. */
const taskList = { [TASK]: async () => OUTPUT };

/** Jobs that are not completed yet, as the database has it: the runner tells of a completion before it is committed. */
async function outstanding() {
  const { rows } = await utils.withPgClient((client) =>
    client.query('select count(*)::integer as jobs from graphile_worker.jobs'),
  );
  return rows[0].jobs;
}

/**
 * Adds jobs as fast as they are completed, so that the runner always finds some: it never has to wait for a poll or a
 * notification.
 * @param size jobs an addition; 1: `addJob`, more: `addJobs`
 * @param adders additions side by side
 * @param backlog jobs that are added before they are completed
 * @returns completed jobs a second, after a warm-up, and how many `units` with it
 */
async function measure({ seconds, size, adders, backlog, worker }) {
  const events = new EventEmitter();
  // Each adder may wait for the next completion.
  events.setMaxListeners(0);
  const jobs = { added: 0, done: 0, doneBefore: 0 };
  events.on('job:complete', () => {
    jobs.done += 1;
  });
  const runner = await run({
    connectionString,
    taskList,
    events,
    noHandleSignals: true,
    preset: { worker: { logger, pollInterval: 100, ...worker } },
  });
  try {
    let began = performance.now() + warmUpMs(seconds);
    const deadline = began + seconds * 1000;
    const start = setTimeout(() => {
      jobs.doneBefore = jobs.done;
      began = performance.now();
    }, warmUpMs(seconds));
    const specs = Array.from({ length: size }, () => ({ identifier: TASK, payload: PAYLOAD }));
    const add = async () => {
      while (performance.now() < deadline) {
        if (jobs.added - jobs.done > backlog) {
          await once(events, 'job:complete');
          continue;
        }
        jobs.added += size;
        await (size === 1 ? utils.addJob(TASK, PAYLOAD) : utils.addJobs(specs));
      }
    };
    await Promise.all(Array.from({ length: adders }, add));
    clearTimeout(start);
    const elapsed = performance.now() - began;
    const completed = jobs.added - (await outstanding()) - jobs.doneBefore;
    while (jobs.done < jobs.added) {
      await once(events, 'job:complete', { signal: AbortSignal.timeout(DRAIN_MS) });
    }
    return { perSecond: (completed * 1000) / elapsed, units: jobs.done };
  } finally {
    await runner.stop();
  }
}

answerOrders(
  {
    tune: ({ seconds, candidates }) => findBest(candidates, (settings) => measure({ ...settings, seconds })),
    round: (settings) => measure(settings),
  },
  () => utils.release(),
);
