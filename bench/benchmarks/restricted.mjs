import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { goalLine } from '../lib/pages/figures.mjs';
import { comparePooled } from '../lib/load/load.mjs';
import { ROOT } from '../lib/root.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Claims of restricted runs';
export const about =
  'POST /workers/{id}/claim, 100 a second from 16 workers, beside 1 M pending runs with 1,000 distinct selectors, of which the ' +
  'workers match one. Half of the runs also have one of 10,000 concurrency keys, all of which are at their limit. Each ' +
  'claimed run is completed and another of its kind created. Only the claim is timed. Workers without tags get 1 k ' +
  'plain runs from the same database. In each of five rounds the service takes turns of a few seconds with one that has 1 k ' +
  'pending plain runs; quantiles are of all claims of a round, and the last figures divide them by those of the other one.';
export const figures = {
  timesP50: { title: 'p50, times 1 k plain', unit: '' },
  timesP95: { title: 'p95, times 1 k plain', unit: '' },
  timesP99: { title: 'p99, times 1 k plain', unit: '' },
};

const PENDING = [1_000_000];
const SELECTORS = 1_000;
const KEYS = 10_000;
const PLAIN = 1_000;
const ROUNDS = 5;
const SPELLS = 4;

/** The runs in execution have no worker: the reaper must not take them from it. */
const ENV = { SERVICE_WORKER_TIMEOUT: '86400', SERVICE_REAPER_INTERVAL: '3600' };

/** One row for every size and kind of claimed run. */
export async function measure({ seconds }) {
  const load = { scenario: 'claim', clients: 16, seconds: Math.max(1, seconds / SPELLS), rate: 100 };
  const reference = await startSeeded({ finished: 0, pending: PLAIN, env: ENV });
  const plain = { label: '1 k plain', rounds: [] };
  const rows = [plain];
  try {
    for (const pending of sizesOf(PENDING)) {
      const seeded = { finished: 0, pending: pending + PLAIN };
      const service = await startSeeded({ ...seeded, env: ENV, add: await restrict(pending) });
      const add = async (label, options) => {
        const before = await countClaimed(service);
        const compared = await comparePooled(
          { url: service.url, load: { ...load, options } },
          { url: reference.url, load },
          { rounds: ROUNDS, spells: SPELLS },
        );
        const claims = ROUNDS * SPELLS * load.seconds * load.rate;
        if ((await countClaimed(service)) - before < claims / 2)
          throw new Error(`${label}: most claims got no run`);
        plain.rounds.push(...compared.map(({ besideFigures }) => besideFigures));
        rows.push({ label, rounds: compared.map((round) => round.figures) });
      };
      const selector = [tagOf(7)];
      try {
        await add(`${inWords(pending)} restricted, one selector matches`, {
          tags: selector,
          run: { selector },
        });
        const concurrency = { key: 'open', limit: KEYS };
        await add('the same, runs with a key that has room', {
          tags: selector,
          run: { selector, concurrency },
        });
        await add('plain runs beside them', { tags: [] });
      } finally {
        await service.stop();
      }
    }
  } finally {
    await reference.stop();
  }
  return rows;
}

/** Medians of the rounds, against 1 k plain runs. */
export function goals(rows) {
  return rows
    .slice(1)
    .map(({ label, figures: { timesP99 } }) =>
      goalLine(`claim p99, ${label}, against 1 k plain`, timesP99.median, { atMost: 1.5 }),
    );
}

async function countClaimed({ query }) {
  const [{ claimed }] = await query(
    "select count(*)::integer as claimed from runs where worker_id like 'claimant%'",
  );
  return claimed;
}

/** A module of the service. @param file within `src/runs` */
function loadModule(file) {
  return import(pathToFileURL(join(ROOT, process.env.BENCH_DIST ?? 'dist', 'src/runs', file)).href);
}

function tagOf(n) {
  return `tag-${n}`;
}

/**
 * Statements that give so many seeded runs selectors and keys, and put the first run of each key into execution. The plain
 * runs come last, so that workers with tags leave them in the queue.
 */
async function restrict(pending) {
  const { requirementIdOf } = await loadModule('requirements.js');
  const { laneOf, requiredOf } = await loadModule('queue/lane.js');
  const requirements = Array.from({ length: SELECTORS }, (_, n) => {
    const required = { tags: [tagOf(n)], capabilities: [], gpuTags: [] };
    const run = { requirementId: requirementIdOf(required), concurrencyKey: 'key', avoidedWorker: null };
    const list = requiredOf(run, required).map((one) => `'${one}'`);
    return `(${n}, '${run.requirementId}'::uuid, '${laneOf(run)}'::uuid, array[${list.join(', ')}])`;
  });
  return [
    `create table requirement (n integer primary key, id uuid, keyed uuid, required text[]);
     insert into requirement values ${requirements.join(', ')};
     insert into lanes (id, required)
     select id, required[1:1] from requirement
      union all
     select keyed, required from requirement`,
    `update runs r
        set selector = json_build_array(replace(u.required[1], 'tag:', '')),
            requirement_id = u.id,
            concurrency_key = k.key,
            concurrency_limit = case when k.key is not null then 1 end
       from (select id, row_number() over (order by id) as n from runs where state = 'PENDING') p
       join requirement u on u.n = p.n % ${SELECTORS}
      cross join lateral (
        select case
                 when p.n / ${SELECTORS} % 2 = 1 then 'key-' || ((hashint8extended(p.n, 1) & 1048575) % ${KEYS})
               end as key
      ) k
      where r.id = p.id
        and p.n <= ${pending}`,
    `update runs r
        set state = 'RUNNING', worker_id = 'holder', assigned_at = now(), started_at = now()
       from (
         select distinct on (concurrency_key) id
           from runs
          where concurrency_key is not null
          order by concurrency_key, id
       ) first
      where r.id = first.id`,
    `insert into executions (run_id, created_at, assigned_at, attempt, cpu_millis, ram_mb, vram_mb, requirement_id, worker_id, concurrency_key)
     select id, created_at, assigned_at, attempt, cpu * 1000, ram_mb, vram_mb, requirement_id, worker_id, concurrency_key
       from runs
      where state = 'RUNNING'`,
    `insert into concurrency_keys (key, executing)
     select concurrency_key, 1 from runs where state = 'RUNNING'`,
    'delete from queue q using runs r where r.id = q.run_id and r.requirement_id is not null',
    'update runs set priority = -1 where requirement_id is null',
    'update queue set priority = -1',
    `insert into queue (
       run_id, priority, created_at, ram_mb, vram_mb, cpu_millis, lane, concurrency_key, concurrency_limit, alike, is_admitted
     )
     select r.id, priority, created_at, ram_mb, vram_mb, cpu * 1000, l.lane, concurrency_key, concurrency_limit,
            case
              when concurrency_key is not null
              then hashtextextended(concat_ws(' ', l.lane, concurrency_limit, cpu * 1000, ram_mb, vram_mb, 0), 0)
            end,
            concurrency_key is null
       from runs r
       join requirement u on u.id = r.requirement_id
      cross join lateral (select case when concurrency_key is null then u.id else u.keyed end as lane) l
      where state = 'PENDING'`,
    'drop table requirement',
    ...['runs', 'queue', 'lanes', 'concurrency_keys', 'executions'].map(
      (table) => `vacuum (freeze, analyze) ${table}`,
    ),
  ];
}
