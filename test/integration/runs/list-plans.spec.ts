import 'reflect-metadata';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import type { RunFilter } from '../../../src/runs/reading/run-filter.js';
import { findDriver, type RunPlace } from '../../../src/runs/reading/list-conditions.js';
import { listRuns, type RunWalk } from '../../../src/runs/reading/list-runs.js';
import { addExecutions } from '../../support/runs/executions.js';
import type { TestDatabase } from '../../support/test-database.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const RUNS = 50_000;
/** Written by one statement: all at once take longer than a statement may, where others use the machine. */
const PORTION = 5_000;
/** Of them in execution: a list of a state of runs that have not ended may read all of these in vain. */
const EXECUTING = 50;
const LIMIT = 100;
/** Ids of API keys that created runs. */
const [OFTEN_KEY, RARE_KEY] = [randomUUID(), randomUUID()];
const START = Date.parse('2026-01-01T00:00:00.000Z');
/** Ten runs share each fifth of a second. */
const END = START + RUNS * 20;

/**
 * Blocks that one page may touch: its rows are fetched one by one, each perhaps from a block of its own, a list of all
 * states looks at as many of each outcome, and the walk down an index of this size passes three levels.
 */
const MOST_BLOCKS = { ofOneState: 2 * LIMIT + 50, ofAllStates: 5 * LIMIT + 100, ofTerms: 20 * LIMIT };

/** What a plan may consist of: stretches of indexes, and what puts them together. */
const NODES: ReadonlySet<string> = new Set([
  'Limit',
  'Index Scan',
  'Index Only Scan',
  'Nested Loop',
  'Function Scan',
  'Sort',
  'Incremental Sort',
  'Memoize',
  'WindowAgg',
  'Subquery Scan',
  'Append',
  'Merge Append',
  'CTE Scan',
  'Aggregate',
]);

const FILTERS: readonly (readonly [title: string, filter: RunFilter])[] = [
  ['no filter', { created: {} }],
  ['a frequent state', { state: 'COMPLETED', created: {} }],
  ['a rare state', { state: 'RUNNING', created: {} }],
  ['a state that no run has', { state: 'CANCELLED', created: {} }],
  ['a frequent image', { image: 'often', created: {} }],
  ['a rare image', { image: 'rare', created: {} }],
  ['an image that no run has', { image: 'never', created: {} }],
  ['a frequent definition', { definitionId: 'often', created: {} }],
  ['a rare definition', { definitionId: 'rare', created: {} }],
  ['a key that created most runs', { createdBy: OFTEN_KEY, created: {} }],
  ['a key that created few runs', { createdBy: RARE_KEY, created: {} }],
  ['a frequent state and a key', { state: 'COMPLETED', createdBy: OFTEN_KEY, created: {} }],
  ['a frequent topic', { topic: 'often', created: {} }],
  ['a rare topic', { topic: 'rare', created: {} }],
  ['created[gte]', { created: { gte: new Date(START) } }],
  ['created[gt]', { created: { gt: new Date(START) } }],
  ['created[lte]', { created: { lte: new Date(END) } }],
  ['created[lt]', { created: { lt: new Date(END) } }],
  ['both ends of the time', { created: { gte: new Date(START), lte: new Date(END) } }],
  ['a state and both ends', { state: 'COMPLETED', created: { gt: new Date(START), lt: new Date(END) } }],
  ['a topic and both ends', { topic: 'often', created: { gte: new Date(START), lt: new Date(END) } }],
  ['a frequent key', { concurrencyKey: 'often', created: {} }],
  ['a rare key', { concurrencyKey: 'rare', created: {} }],
  ['a key that no run has', { concurrencyKey: 'never', created: {} }],
  ['a frequent key and a state', { concurrencyKey: 'often', state: 'COMPLETED', created: {} }],
  [
    'a frequent key and both ends',
    { concurrencyKey: 'often', created: { gt: new Date(START), lt: new Date(END) } },
  ],
  ['a frequent worker', { workerId: 'often', created: {} }],
  ['a worker that only runs in execution have', { workerId: 'rare', created: {} }],
  ['a worker that no run has', { workerId: 'never', created: {} }],
  ['a frequent worker and a state', { workerId: 'often', state: 'COMPLETED', created: {} }],
  ['a worker and a rare state', { workerId: 'often', state: 'RUNNING', created: {} }],
  [
    'a frequent worker and both ends',
    { workerId: 'often', created: { gte: new Date(START), lt: new Date(END) } },
  ],
  ['ends from a time on', { ended: { gte: new Date(START) }, created: {} }],
  ['ends up to a time', { ended: { lt: new Date(END) }, created: {} }],
  ['ends up to a time and a state', { ended: { lt: new Date(END) }, state: 'COMPLETED', created: {} }],
  ['ends from a time on, and a state', { ended: { gte: new Date(START) }, state: 'COMPLETED', created: {} }],
  ['ends from a time on, and a worker', { ended: { gte: new Date(START) }, workerId: 'often', created: {} }],
  ['an image that only the oldest runs have', { image: 'once', created: {} }],
  ['a state that only the oldest runs have', { state: 'FAILED', created: {} }],
  ['a frequent state and a rare image', { state: 'COMPLETED', image: 'rare', created: {} }],
  ['a rare state and a frequent image', { state: 'RUNNING', image: 'often', created: {} }],
  ['a state and a frequent image that do not meet', { state: 'PENDING', image: 'often', created: {} }],
  ['a state that the image had long ago', { state: 'COMPLETED', image: 'once', created: {} }],
  ['a frequent state and a rare topic', { state: 'COMPLETED', topic: 'rare', created: {} }],
  ['a rare state and a frequent topic', { state: 'RUNNING', topic: 'often', created: {} }],
  ['a frequent state and a definition', { state: 'COMPLETED', definitionId: 'often', created: {} }],
  ['an image and a topic that never meet', { image: 'image-1', topic: 'often', created: {} }],
  ['an image and a topic that met long ago', { image: 'once', topic: 'often', created: {} }],
  ['an image and a definition that never meet', { image: 'image-1', definitionId: 'often', created: {} }],
  ['a frequent topic and a frequent definition', { topic: 'often', definitionId: 'often', created: {} }],
  ['an image, a topic and a rare state', { image: 'often', topic: 'often', state: 'RUNNING', created: {} }],
  ['a rare state and a frequent definition', { state: 'RUNNING', definitionId: 'often', created: {} }],
];

/** In which 100 runs ended that had just been created, and some that had been created long before. */
const SHORT = { gte: new Date(START + 200_000), lt: new Date(START + 204_000) };

/** A list by tags or labels looks up the other conditions for each run of one of them. */
const TERM_FILTERS: readonly (readonly [title: string, filter: RunFilter])[] = [
  ['a frequent tag', { terms: [['selector:often']], created: {} }],
  ['a rare tag', { terms: [['selector:rare']], created: {} }],
  ['a tag that no run has', { terms: [['selector:never']], created: {} }],
  ['a tag that only the oldest runs have', { terms: [['selector:once']], created: {} }],
  ['a frequent tag and a rare state', { terms: [['selector:often']], state: 'RUNNING', created: {} }],
  ['a rare tag and a frequent state', { terms: [['selector:rare']], state: 'COMPLETED', created: {} }],
  ['a tag and a state that do not meet', { terms: [['selector:often']], state: 'PENDING', created: {} }],
  [
    'a tag and both ends',
    { terms: [['selector:often']], created: { gte: new Date(START), lt: new Date(END) } },
  ],
  ['two frequent tags', { terms: [['selector:often'], ['selector:too']], created: {} }],
  ['a frequent tag and a frequent topic', { terms: [['selector:often']], topic: 'often', created: {} }],
  ['a frequent label', { terms: [['label:team=often']], created: {} }],
  ['a key of labels', { terms: [['label:team']], created: {} }],
  ['two values of a label', { terms: [['label:team=often', 'label:team=rare']], created: {} }],
  [
    'a frequent label and one that only the oldest runs have',
    { terms: [['label:team=often'], ['label:stage=old']], created: {} },
  ],
  ['a frequent label and a rare image', { terms: [['label:team=often']], image: 'rare', created: {} }],
  ['a label and a state', { terms: [['label:team=often']], state: 'COMPLETED', created: {} }],
  [
    'a label and the beginning of a rare name',
    { terms: [['label:team=often']], namePrefix: 'rare', created: {} },
  ],
  ['a name', { name: 'rare 5000', created: {} }],
  ['a rare tag and a frequent one', { terms: [['selector:rare'], ['selector:too']], created: {} }],
];

/** A list of the runs that ended after a time reads those that were created after it, and looks up the others by their ends. */
const END_FILTERS: readonly (readonly [title: string, filter: RunFilter])[] = [
  ['ends', { ended: SHORT, created: {} }],
  ['ends, and a frequent image', { ended: SHORT, image: 'often', created: {} }],
  ['ends, and a worker', { ended: SHORT, workerId: 'often', created: {} }],
  ['ends, and a frequent state', { ended: SHORT, state: 'COMPLETED', created: {} }],
  ['ends, and a state that ended at other times', { ended: SHORT, state: 'CANCELLED', created: {} }],
  ['ends, and a frequent label', { ended: SHORT, terms: [['label:team=often']], created: {} }],
  ['ends, and the beginning of a frequent name', { ended: SHORT, namePrefix: 'often', created: {} }],
];

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

describe(`a page of a list of ${RUNS} runs`, () => {
  const database = useTestDatabase();
  /** Oldest, middle and newest run of the whole table. */
  let places: Readonly<Record<'first' | 'middle' | 'last', RunPlace>>;

  beforeAll(async () => {
    await fill(database);
    const at = async (offset: number): Promise<RunPlace> => {
      const [place] = await rows<RunPlace>(
        database.dataSource,
        `select created_at as "createdAt", id from runs order by created_at, id offset $1 limit 1`,
        [offset],
      );
      assert.ok(place);
      return place;
    };
    places = { first: await at(0), middle: await at(RUNS / 2), last: await at(RUNS - 1) };
  });

  for (const [title, filter] of [...FILTERS, ...TERM_FILTERS]) {
    const isOpen = filter.state === 'PENDING' || filter.state === 'RUNNING';
    test(`under ${title} reads the index in its order and touches few blocks, wherever it lies`, async () => {
      for (const direction of ['older', 'newer'] as const) {
        for (const [where, place] of [['the end', null], ...Object.entries(places)] as const) {
          const plan = await explain(database, filter, { place, direction });
          const nodes = planNodes(plan);
          const types = nodes.map((node) => node['Node Type']);
          const page = `${direction} than ${where}`;
          assert.ok(
            nodes.every((node) => NODES.has(node['Node Type']) || node['Relation Name'] === 'executions'),
            `${page}: only stretches of indexes, not ${types.join(', ')}`,
          );
          for (const node of nodes) {
            // A list by worker puts the range of each outcome and the runs in execution together before it sorts them.
            const parts = filter.workerId === undefined ? 1 : 4;
            assert.ok(
              node['Actual Rows'] <= parts * (LIMIT + 1) || node['Node Type'] === 'Nested Loop',
              page,
            );
            const inVain = node['Rows Removed by Filter'] ?? 0;
            const ofName = (filter.name ?? filter.namePrefix) === undefined ? 0 : RUNS / 5000;
            assert.ok(
              inVain <= (isOpen || node['Relation Name'] === 'executions' ? EXECUTING : ofName),
              `${page}: no row of an ended run is read in vain`,
            );
          }
          const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
          // A list of a state by end has two parts, whose runs are looked up as those of several states.
          const isOfParts = filter.state === undefined || filter.ended !== undefined;
          const ofFields = isOfParts ? MOST_BLOCKS.ofAllStates : MOST_BLOCKS.ofOneState;
          const most =
            (filter.terms === undefined ? ofFields : MOST_BLOCKS.ofTerms) +
            (isOpen || filter.workerId !== undefined ? 4 * EXECUTING : 0);
          assert.ok(blocks <= most, `${page}: ${blocks} blocks`);
        }
      }
    });
  }

  for (const [title, filter] of END_FILTERS) {
    test(`of a short time of ${title} touches few blocks, wherever it lies`, async () => {
      for (const direction of ['older', 'newer'] as const) {
        for (const place of [null, ...Object.values(places)]) {
          const plan = await explain(database, filter, { place, direction });
          const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
          assert.ok(blocks <= MOST_BLOCKS.ofTerms, `${direction}: ${blocks} blocks`);
        }
      }
    });
  }
});

/** Runs whose ids do not follow their times, half of them updated since, as a table in use looks. */
async function fill({ dataSource }: TestDatabase): Promise<void> {
  for (let from = 0; from < RUNS; from += PORTION) await addRuns(dataSource, from);
  await addExecutions(dataSource);
  await execute(dataSource, 'analyze runs, run_terms, executions');
}

/** Adds the runs from a number on, a portion of all. */
async function addRuns(dataSource: DataSource, from: number): Promise<void> {
  await execute(
    dataSource,
    `insert into runs (
       id, state, outcome, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
       max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, definition_id,
       definition_version, created_by, created_by_name, concurrency_key, concurrency_limit, selector, labels, name, worker_id, ended_worker, queued_at, finished_at, created_at, updated_at, size
     )
     select gen_random_uuid(), state, case when finished_at is null then 'OPEN' else state end, 0, 0, 1, gen_random_uuid(), 0, 0, 0, 0,
            1, case when n % 5000 = 0 then 'rare' when n < $2 / 3 and n % 2 = 0 then 'once' when n % 2 = 0 then 'often' else 'image-' || n % 100 end,
            '{}', '{}', 0, 0, 0,
            case when n % 5000 = 0 then 'rare' when n % 2 = 0 then 'often' end,
            case when n % 5000 = 0 then 'rare' when n % 2 = 0 then 'often' end,
            case when n % 2 = 0 then '1' end,
            case when n % 5000 = 0 then $6::uuid else $7::uuid end, 'key',
            case when n % 5000 = 0 then 'rare' when n % 2 = 0 then 'often' end,
            case when n % 2 = 0 then 1 end,
            case when n % 5000 = 0 then '["rare", "too"]'
                 when n < $2 / 3 and n % 4 = 2 then '["once"]'
                 when n % 2 = 0 then '["often", "too"]'
            end::json,
            case when n < 20 and n % 2 = 0 then '{"team":"often","stage":"old"}'
                 when n % 5000 = 0 then '{"team":"rare"}'
                 when n % 2 = 0 then '{"team":"often"}'
            end::json,
            case when n % 5000 = 0 then 'rare ' when n % 2 = 0 then 'often ' end || n,
            case when state = 'PENDING' then null when n % 5000 = 0 then 'rare' else 'often' end,
            case when finished_at is not null then 'often' end,
            t, finished_at, t, t, 4
       from (
         select n, t, case when n < 4000 and n % 4 = 1 then 'FAILED' when n % 1000 = 0 then 'RUNNING' when n % 2 = 0 then 'COMPLETED' else 'PENDING' end as state,
                case when n % 1000 <> 0 and (n % 2 = 0 or n < 4000 and n % 4 = 1)
                     then case when n < 8000 and n % 1000 = 2 then $5::timestamptz else t end
                end as finished_at
           from generate_series($3::integer, $4::integer - 1) as n
          cross join lateral (select $1::timestamptz + n / 10 * interval '200 milliseconds' as t) time
       ) as series`,
    [new Date(START).toISOString(), RUNS, from, from + PORTION, SHORT.gte.toISOString(), RARE_KEY, OFTEN_KEY],
  );
  await execute(
    dataSource,
    `update runs set updated_at = updated_at where state = 'COMPLETED' and created_at >= $1::timestamptz`,
    [new Date(START + from * 20).toISOString()],
  );
}

/** The plan of the very statement that the repository sends. */
async function explain(
  { dataSource }: TestDatabase,
  filter: RunFilter,
  walk: Pick<RunWalk, 'place' | 'direction'>,
): Promise<Plan> {
  const runner = dataSource.createQueryRunner();
  try {
    const driver = await findDriver(runner.manager, filter);
    let plan: Plan | undefined;
    const send = runner.query.bind(runner);
    runner.query = async (sql: string, params?: unknown[]) => {
      const [row] = await send(`explain (analyze, buffers, format json) ${sql}`, params);
      plan = row['QUERY PLAN'][0].Plan;
      return { records: [], affected: 0, raw: [] };
    };
    await listRuns(runner.manager, filter, { ...walk, limit: LIMIT, maxBytes: 4 * 1024 * 1024 }, driver);
    assert.ok(plan);
    return plan;
  } finally {
    await runner.release();
  }
}
