// pg-boss in process: enqueue, fetch and complete by its own functions. Started with the URL of a fresh database.
import { PgBoss } from 'pg-boss';
import { answerOrders, findBest, loops } from './answer.mjs';

const DATA = { image: 'i', filler: 'x'.repeat(480) };
const OUTPUT = { filler: 'x'.repeat(480) };
const QUEUE = 'jobs';
const BATCH = 1000;

// `fetch` is asked directly, so nothing waits for a poll; what pg-boss does beside jobs is switched off.
const boss = new PgBoss({
  connectionString: process.argv[2],
  max: 64,
  supervise: false,
  schedule: false,
});
boss.on('error', (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
await boss.start();
await boss.createQueue(QUEUE);

async function one() {
  await boss.send(QUEUE, DATA);
  const jobs = await boss.fetch(QUEUE);
  for (const { id } of jobs) await boss.complete(QUEUE, id, OUTPUT);
  return jobs.length;
}

async function batch() {
  await boss.insert(
    QUEUE,
    Array.from({ length: BATCH }, () => ({ data: DATA })),
  );
  const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
  if (jobs.length === 0) return 0;
  await boss.complete(
    QUEUE,
    jobs.map(({ id }) => id),
    OUTPUT,
  );
  return jobs.length;
}

const steps = { one, batch };

answerOrders(
  {
    tune: async ({ kind, seconds, candidates }) =>
      findBest(candidates, ({ count }) => loops(count, seconds, steps[kind])),
    round: ({ kind, seconds, count }) => loops(count, seconds, steps[kind]),
  },
  () => boss.stop({ graceful: false }),
);
