import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { execute, rows } from '../../../src/database/sql/sql.js';
import type { RunJournal as Journal } from '../../../src/runs/journal/run-journal.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { RUN_STATES } from '../../../src/runs/machine/run-state.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import { createOn, freshRun } from '../../support/runs/journal.js';
import {
  backwards,
  expectedPage,
  forwards,
  inOrder,
  matches,
  type Filter,
  type ListedRun,
} from '../../support/runs/list-walk.js';
import { addExecutions } from '../../support/runs/executions.js';
import type { TestApp } from '../../support/app/test-app.js';
import { atDepth } from '../../support/depth.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const RUNS = atDepth({ fast: 500, all: 2_500, soak: 10_000 });
const IMAGES = ['a', 'b', 'c', 'd', 'rare'] as const;
const TOPICS = [null, null, 't1', 't2'] as const;
const DEFINITIONS = [null, null, null, 'def'] as const;
const SELECTORS = [null, null, null, null, ['gpu'], ['eu', 'gpu'], ['eu'], ['gpu', 'gpu', 'us']] as const;
const KEYS = [null, null, null, 'k1', 'k2'] as const;
/** State of the nth run: most stay PENDING. */
const STATES = ['PENDING', 'COMPLETED', 'PENDING', 'FAILED', 'PENDING', 'RUNNING', 'CANCELLED'] as const;

/** A filter whose times are counted in seconds from the middle of the creations. */
type RelativeFilter = Filter;

const FIELD_FILTERS: readonly RelativeFilter[] = [
  {},
  ...RUN_STATES.map((state) => ({ state })),
  { status: 'COMPLETED' },
  { state: 'FAILED', status: 'FAILED' },
  ...IMAGES.map((image) => ({ image })),
  { image: 'nobody’s' },
  { op_definition: 'def' },
  { op_definition: 'none' },
  { topic: 't1' },
  { topic: 'none' },
  { topic: 't1', state: 'COMPLETED' },
  { topic: 't2', image: 'b', status: 'PENDING' },
  { op_definition: 'def', topic: 't2', state: 'FAILED', image: 'rare' },
  { concurrency_key: 'k1' },
  { concurrency_key: 'none' },
  { concurrency_key: 'k2', state: 'COMPLETED' },
  { concurrency_key: 'k1', topic: 't1', image: 'b' },
  { selector: 'gpu' },
  { selector: 'none' },
  { selector: 'gpu,eu' },
  { selector: 'eu,gpu,eu', state: 'FAILED' },
  { selector: 'gpu', status: 'PENDING' },
  { selector: 'gpu', image: 'a', topic: 't1' },
  { selector: 'eu', concurrency_key: 'k1', state: 'PENDING' },
];

const TIME_FILTERS: readonly NonNullable<Filter['created']>[] = [
  { gte: 0 },
  { gt: 0 },
  { lte: 0 },
  { lt: 0 },
  { gte: -1, lt: 1 },
  { gt: -2, lte: 1 },
  { gte: 0, lte: 0 },
  { gt: 0, lt: 0 },
  { gte: -1, gt: -1, lte: 2, lt: 2 },
  { gte: 100_000 },
  { lt: -100_000 },
];

describe(`the list of ${RUNS} runs that two processes created at once`, () => {
  const service = useTestApp();
  const twin = useTestApp(() => ({ database: service.database }));
  let journals: readonly [Journal, Journal];
  let middle: number;

  beforeAll(async () => {
    journals = [service.app.get(RunJournal), twin.app.get(RunJournal)];
    await createMany(RUNS);
    // As a slow clock would have it: ids alternate between the processes, and twenty runs share a moment.
    await execute(
      service.dataSource,
      `update runs r
          set created_at = '2026-01-01T00:00:00Z'::timestamptz + v.n / 20 * interval '100 milliseconds'
         from (select id, row_number() over (order by id) - 1 as n from runs) v
        where r.id = v.id`,
    );
    await addExecutions(service.dataSource);
    const times = (await stored()).map(({ createdAt }) => Date.parse(createdAt));
    middle = Math.round((Math.min(...times) + Math.max(...times)) / 2000);
  });

  /** Creates runs through both processes, as fast as they take them, and brings them into their states. */
  async function createMany(count: number): Promise<void> {
    await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        const journal = journals[n % 2 === 0 ? 0 : 1];
        const topic = TOPICS[n % TOPICS.length];
        const definition = DEFINITIONS[n % DEFINITIONS.length];
        const selector = SELECTORS[n % SELECTORS.length] ?? null;
        const run = await createOn(journal, {
          // Tells the processes apart.
          priority: n % 2,
          image: n % 100 === 0 ? 'rare' : (IMAGES[n % 4] ?? 'a'),
          topic: topic ?? null,
          definitionId: definition ?? null,
          definitionVersion: definition ? '1' : null,
          selector,
          requirementId:
            selector && requirementIdOf({ tags: selector, capabilities: [], gpuTags: [], gpus: null }),
          concurrencyKey: KEYS[n % KEYS.length] ?? null,
          concurrencyLimit: KEYS[n % KEYS.length] ? 1000 : null,
        });
        const state = STATES[n % STATES.length] ?? 'PENDING';
        if (state !== 'PENDING') await journal.change(run.id, { type: 'patch', keyName: 'test', state });
      }),
    );
  }

  async function stored(): Promise<ListedRun[]> {
    const found = await rows<Omit<ListedRun, 'createdAt'> & { readonly createdAt: Date }>(
      service.dataSource,
      `select id, created_at as "createdAt", state, image, topic, definition_id as "op_definition",
              coalesce(selector, '[]') as selector, concurrency_key from runs`,
    );
    return inOrder(found.map((run) => ({ ...run, createdAt: run.createdAt.toISOString() })));
  }

  /** The filter with its times in seconds since 1970. */
  const at = ({ created, ...fields }: RelativeFilter): Filter => ({
    ...fields,
    ...(created && {
      created: Object.fromEntries(Object.entries(created).map(([name, s]) => [name, middle + s])),
    }),
  });
  const allFilters = (): Filter[] => [
    ...FIELD_FILTERS.map(at),
    ...TIME_FILTERS.map((created) => at({ created })),
    ...TIME_FILTERS.slice(0, 6).map((created, i) =>
      at(
        [
          { created, state: 'COMPLETED' },
          { created, topic: 't1', image: 'c' },
          { created, selector: 'gpu' },
        ][i % 3] ?? {},
      ),
    ),
  ];
  const sends = (): TestApp['send'][] => [service.send, twin.send];

  test('many were created in the same millisecond, by both processes', async () => {
    const runs = await stored();
    assert.equal(runs.length, RUNS);
    const [shared] = await rows<{ most: number; mixed: number }>(
      service.dataSource,
      `select max(n)::integer as most, count(*) filter (where processes = 2)::integer as mixed
         from (
           select count(*) as n, count(distinct priority) as processes
             from runs
            group by created_at
         ) as times`,
    );
    assert.ok(shared && shared.most > 10 && shared.mixed > 0, JSON.stringify(shared));
  });

  test('is walked completely in both directions under every filter, and has_more is exact on every page', async () => {
    const runs = await stored();
    for (const filter of allFilters()) {
      const expected = runs.filter((run) => matches(run, filter));
      for (const walk of [forwards, backwards]) {
        // A walk back begins at the oldest run, which it does not show.
        const wanted = (walk === forwards ? expected : expected.slice(0, -1)).map(({ id }) => id);
        const limit = evenLimit(wanted.length);
        const pages = await walk(sends(), filter, limit, expected.at(-1)?.id);
        const what = `${walk.name} ${JSON.stringify(filter)} by ${limit}`;
        assert.deepEqual(
          (walk === forwards ? pages : pages.toReversed()).flatMap(({ ids }) => ids),
          wanted,
          what,
        );
        pages.forEach((page, i) => assert.equal(page.hasMore, i < pages.length - 1, what));
        pages.slice(0, -1).forEach((page) => assert.equal(page.ids.length, limit, what));
        // Not one page more: the last full one knows that nothing follows it.
        assert.ok(pages.length <= Math.max(1, Math.ceil(wanted.length / limit)), what);
      }
    }
  });

  test('shows the right page from any run on, in both directions, whether or not that run passes the filter', async () => {
    const runs = await stored();
    const filters = allFilters();
    let seed = 20_260_310;
    const draw = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const questions = Array.from({ length: 600 }, () => ({
      filter: filters[draw(filters.length)] ?? {},
      cursor: runs[draw(runs.length)]?.id ?? '',
      direction: draw(2) === 0 ? ('starting_after' as const) : ('ending_before' as const),
      limit: [1, 2, 10, 99, 100][draw(5)] ?? 1,
    }));
    const ask = async (lane: number): Promise<void> => {
      for (const [i, question] of questions.entries()) {
        if (i % 4 !== lane) continue;
        assert.deepEqual(
          await expectedPage.ask(sends()[i % 2] ?? service.send, question),
          expectedPage.of(runs, question),
          JSON.stringify(question),
        );
      }
    };
    await Promise.all([0, 1, 2, 3].map(ask));
  });

  test('loses and repeats nothing while more runs are created and others change their state', async () => {
    const stop = new AbortController();
    const known = await stored();
    const movable = new Set(known.filter((_, i) => i % 3 === 0).map(({ id }) => id));
    const still = known.filter(({ id }) => !movable.has(id));
    const churn = async (journal: Journal, offset: number): Promise<number> => {
      const ids = [...movable];
      let changes = 0;
      while (!stop.signal.aborted) {
        const state = RUN_STATES[changes % RUN_STATES.length];
        const moving = Array.from(
          { length: 8 },
          (_, i) => ids[(changes * 8 + i + offset) % ids.length] ?? '',
        );
        await Promise.all([
          ...moving.map((id) => journal.change(id, { type: 'patch', keyName: 'test', state })),
          ...IMAGES.slice(0, 4).map((image) => journal.create(freshRun({ image, topic: 't1' }))),
        ]);
        changes += 1;
        await sleep(2);
      }
      return changes;
    };
    const churns = [churn(journals[0], 0), churn(journals[1], Math.floor(movable.size / 2))];
    try {
      const filters: RelativeFilter[] = [
        {},
        { state: 'PENDING' },
        { status: 'COMPLETED' },
        { image: 'b' },
        { topic: 't1' },
        { topic: 't1', state: 'PENDING' },
        { selector: 'gpu' },
        { selector: 'eu,gpu', state: 'COMPLETED' },
        { concurrency_key: 'k1', state: 'PENDING' },
        { created: { gte: 0 } },
        { created: { lt: 0 }, state: 'PENDING' },
      ];
      for (const filter of filters.map(at)) {
        const staying = still.filter((run) => matches(run, filter)).map(({ id }) => id);
        for (const walk of [forwards, backwards]) {
          const pages = await walk(sends(), filter, 100, staying.at(-1));
          const seen = (walk === forwards ? pages : pages.toReversed()).flatMap(({ runs }) => runs);
          const what = `${walk.name} ${JSON.stringify(filter)}`;
          assert.deepEqual(seen, inOrder(seen), `${what}: one order, nothing twice`);
          assert.ok(
            seen.every((run) => matches(run, filter)),
            `${what}: nothing that does not belong there`,
          );
          const shown = new Set(seen.map(({ id }) => id));
          const wanted = walk === forwards ? staying : staying.slice(0, -1);
          assert.deepEqual(
            wanted.filter((id) => !shown.has(id)),
            [],
            `${what}: nothing is missed`,
          );
        }
      }
    } finally {
      stop.abort();
      const changes = await Promise.all(churns);
      assert.ok(Math.min(...changes) > 5, `it was busy meanwhile: ${changes.join(' and ')} rounds`);
    }
  });
});

/** The largest limit that divides the list into full pages, if that makes few of them. */
function evenLimit(length: number): number {
  for (let limit = 100; limit >= 20; limit -= 1) if (length % limit === 0) return limit;
  return length > 500 ? 100 : 7;
}
