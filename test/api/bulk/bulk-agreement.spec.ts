import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const ROUNDS = atDepth({ fast: 6, all: 60 });
/** TEST_SEED=n tries other bodies; a failure prints the seed and the path of the shrunk one. */
const SEED = testSeed(20_261_122);

/* oxlint-disable typescript/no-explicit-any -- items and answers of any shape */

const usually = <T>(good: fc.Arbitrary<T>, bad: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 6, arbitrary: good }, { weight: 1, arbitrary: bad });
const odd = fc.constantFrom<unknown>(null, '', 0, -1, 1.5, 2 ** 31, 'a b', [], {}, true, { x: 1 });

const WISH = fc.record(
  {
    image: usually(fc.constantFrom('a', 'b/c:1'), odd),
    priority: usually(fc.integer({ min: -5, max: 5 }), odd),
    inputs: usually(fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.boolean()), { maxKeys: 2 }), odd),
    constraints: usually(fc.record({ cpu: fc.integer({ min: 0, max: 3 }) }), odd),
    retry_policy: usually(fc.record({ max_attempts: fc.integer({ min: 1, max: 3 }) }), odd),
    event_delivery: usually(fc.record({ topic: fc.constantFrom('t', 'u') }), odd),
    unknown: odd,
  },
  { requiredKeys: [] },
);
const WISHES = fc.array(usually(WISH, odd), { minLength: 1, maxLength: 12 });

/** An event of one of four runs: two of the reporter, one of another worker, one pending; or of none. */
const EVENT = fc.record(
  {
    run: fc.constantFrom(0, 0, 0, 1, 1, 1, 2, 3, 4, 5),
    // What is no attempt is said of a header in the one case and of a field in the other.
    attempt: fc.constantFrom(1, 1, 1, 2, null),
    type: usually(
      fc.constantFrom(
        'STARTED',
        'PROGRESS',
        'PROGRESS',
        'COMPLETED',
        'FAILED',
        'CANCELLED',
        'RETRIED',
        'NOTE',
      ),
      odd,
    ),
    msg: usually(fc.constantFrom<unknown>(50, 50, 'text'), odd),
    payload: usually(
      fc.constantFrom<unknown>(
        { worker_id: 'w' },
        { worker_id: 'w', gpu_id: 1 },
        { worker_id: 'v', outputs: { a: 1 }, error_message: 'e' },
        { worker_id: 'w', force: true },
      ),
      odd,
    ),
  },
  { requiredKeys: ['run', 'type', 'msg'] },
);
const EVENTS = fc.array(EVENT, { minLength: 1, maxLength: 14 });

/** What must be the same of two runs that went through the same. */
function essence(run: any): any {
  const { events, execution_summary: summary } = run;
  const { worker_id, gpu_id, error_message, cause, exit_code } = summary;
  return {
    ...run,
    id: '',
    createdAt: '',
    updatedAt: '',
    execution_summary: { worker_id, gpu_id, error_message, cause, exit_code },
    events: events.map((event: any) => ({ ...event, t: '' })),
  };
}

/** An answer without what is different from run to run. */
function comparable(value: unknown, ids: readonly string[]): unknown {
  const text = ids.reduce((all, id, i) => all.replaceAll(id, `run ${i}`), JSON.stringify(value));
  return JSON.parse(text);
}

describe('a bulk request and the same requests one after the other', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);
  const bulk = new BulkSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat('w');
    await steps.heartbeat('v');
  });

  test('create the same runs and refuse the same in the same words', async () => {
    const seen = new Set<number>();
    const property = fc.asyncProperty(WISHES, async (wishes) => {
      const together = await bulk.create(wishes);
      for (const [i, wish] of wishes.entries()) {
        const body = JSON.stringify(wish);
        const alone = await service.send('POST', '/runs', {
          body,
          headers: { 'Content-Type': 'application/json' },
        });
        seen.add(alone.status);
        assert.equal(together[i].status, alone.status, body);
        if (alone.status === 201) assert.deepEqual(essence(together[i].run), essence(alone.body));
        else assert.deepEqual(together[i].error, alone.body);
      }
    });
    await fc.assert(property, { numRuns: ROUNDS, seed: SEED, includeErrorInReport: true });
    assert.deepEqual(seen, new Set([201, 400]));
  });

  test('record the same events, refuse the same in the same words, and leave the same runs and feeds', async () => {
    const seen = new Set<number>();
    // Before whatever the other test has left in the queue.
    let round = 100;
    /** Four runs: two of the reporter, one of another worker, one pending. */
    const scene = async (topic: string): Promise<string[]> => {
      const retry_policy = { max_attempts: 2 };
      const wish = { event_delivery: { topic }, retry_policy, priority: (round += 1) };
      const ids = [...(await bulk.ids(2, wish)), ...(await bulk.ids(1, wish))];
      const mine = await bulk.claim('w', 2);
      const others = await bulk.claim('v', 1);
      assert.deepEqual(
        [...mine, ...others].map(({ id }) => id),
        ids,
      );
      return [...ids, ...(await bulk.ids(1, { ...wish, priority: -1 }))];
    };
    const feedOf = async (topic: string): Promise<any[]> => {
      const { body } = await service.send('GET', `/feed?limit=500&topic=${encodeURIComponent(topic)}`);
      return body.events.map((event: any) => ({ ...event, cursor: '', t: '', state: '' }));
    };
    const property = fc.asyncProperty(EVENTS, async (drawn) => {
      const topics = [`together ${round}`, `alone ${round}`] as const;
      const ids = [await scene(topics[0]), await scene(topics[1])] as const;
      const none = ['019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b', 'no-id'];
      const bodyAt = (side: 0 | 1, { run, ...event }: (typeof drawn)[number]): any => ({
        run_id: [...ids[side], ...none][run],
        ...event,
      });
      const together = await bulk.report(
        'w',
        drawn.map((event) => bodyAt(0, event)),
      );
      for (const [i, event] of drawn.entries()) {
        const { run_id: id, attempt, ...body } = bodyAt(1, event);
        const fence = { worker: 'w', ...(typeof attempt === 'number' ? { attempt } : {}) };
        const alone = await steps.report(id, body, fence);
        seen.add(alone.status);
        const answer = alone.status < 300 ? { status: 204 } : { status: alone.status, error: alone.body };
        assert.deepEqual(comparable(together[i], ids[0]), comparable(answer, ids[1]), JSON.stringify(event));
      }
      for (const [i, id] of ids[0].entries()) {
        const pair = [await steps.get(id), await steps.get(ids[1][i] ?? '')].map((run) => ({
          ...essence(run),
          event_delivery: null,
          priority: 0,
        }));
        assert.deepEqual(pair[0], pair[1]);
      }
      assert.deepEqual(
        comparable(await feedOf(topics[0]), ids[0]),
        comparable(await feedOf(topics[1]), ids[1]),
      );
      for (const id of ids.flat()) await service.send('POST', `/runs/${id}/cancel`);
    });
    await fc.assert(property, { numRuns: ROUNDS, seed: SEED, includeErrorInReport: true });
    await checkInvariants(service.database.dataSource);
    assert.deepEqual(seen, new Set([200, 400, 404, 409]));
  });
});
