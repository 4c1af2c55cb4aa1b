import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { maxUnstarted } from '../../../src/runs/storage/groups.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const PROCESSES = 3;
const WORKERS = Array.from({ length: 6 }, (_, n) => `w-${n}`);

/** Seconds that a claim waits. */
const WAIT = 2;

interface Side {
  readonly groups: GroupSteps;
  readonly bulk: BulkSteps;
}

/** A side of a diamond. */
const sideOfDiamond = (ref: string) => ({
  ref,
  image: 'i',
  depends_on: [{ ref: 'top' }],
  inputs: { top: { $from: { ref: 'top', output: '/at' } } },
});

/** Numbers of the members of a group. */
type Counts = Readonly<Record<'pending' | 'assigned' | 'running' | 'completed', number>>;

describe(`groups on ${PROCESSES} processes of the service, whose runs are claimed and ended through all of them`, () => {
  const database = useTestDatabase();
  let apps: TestApp[];
  let sides: Side[];

  beforeAll(async () => {
    apps = [];
    while (apps.length < PROCESSES) apps.push(await startTestApp({ database }));
    sides = apps.map((app) => ({ groups: new GroupSteps(app), bulk: new BulkSteps(app.send) }));
    for (const { groups } of sides)
      for (const worker of WORKERS) await groups.runs.heartbeat(worker, { tags: ['early'] });
  });
  afterAll(async () => {
    for (const app of apps) await app.close();
  });

  const on = (n: number): Side => sides[n % sides.length] ?? assert.fail('there are processes');

  const report = async (
    n: number,
    worker: string,
    type: string,
    ops: readonly any[],
    payload: any,
  ): Promise<void> => {
    const events = ops.map((op) => ({
      run_id: op.id,
      attempt: op.attempt,
      type,
      msg: '',
      payload: payload(op),
    }));
    const results = events.length === 0 ? [] : await on(n).bulk.report(worker, events);
    for (const { status, error } of results) assert.equal(status, 204, JSON.stringify(error));
  };
  const complete = (n: number, ops: readonly any[], outputsOf = (_op: any): object => ({}), worker = 'w-0') =>
    report(n, worker, 'COMPLETED', ops, (op: any) => ({ outputs: outputsOf(op) }));

  /** The next runs that a worker gets. */
  const claimed = async (n: number, worker = 'w-0'): Promise<any[]> => {
    for (;;) {
      const ops = await on(n).bulk.claim(worker, 100, { wait: WAIT });
      if (ops.length > 0) return ops;
    }
  };

  /** The numbers that the group keeps, after comparing them with its runs in one statement. */
  const countsOf = async (id: string): Promise<Counts> => {
    const [found] = await rows<{ kept: Counts; counted: Counts }>(
      database.dataSource,
      `select json_build_object(
                'created', g.created, 'pending', g.pending, 'assigned', g.assigned, 'running', g.running,
                'completed', g.completed, 'others', g.failed + g.cancelled
              ) as kept,
              (select json_build_object(
                        'created', count(*),
                        'pending', count(*) filter (where r.state = 'PENDING'),
                        'assigned', count(*) filter (where r.state = 'ASSIGNED'),
                        'running', count(*) filter (where r.state = 'RUNNING'),
                        'completed', count(*) filter (where r.state = 'COMPLETED'),
                        'others', count(*) filter (where r.state in ('FAILED', 'CANCELLED'))
                      )
                 from runs r
                where r.group_id = g.id) as counted
         from groups g
        where g.id = $1::uuid`,
      [id],
    );
    assert.deepEqual(found?.kept, found?.counted);
    return found?.kept ?? assert.fail('there is the group');
  };

  const untilCompleted = async (id: string, size: number): Promise<void> => {
    const group = await on(1).groups.untilGroup(id, ({ state }) => state !== 'open');
    assert.deepEqual([group.state, group.progress, group.counts.completed], ['completed', 100, size]);
    assert.equal((await countsOf(id)).completed, size);
  };

  test('a diamond: both sides at once, then the last one, once, with the outputs of both', async () => {
    const { id } = await on(0).groups.create({
      runs: [
        {
          ref: 'bottom',
          image: 'i',
          depends_on: [{ ref: 'left' }, { ref: 'right' }],
          inputs: {
            left: { $from: { ref: 'left', output: '/at' } },
            right: { $from: { ref: 'right', output: '/at' } },
          },
        },
        sideOfDiamond('left'),
        sideOfDiamond('right'),
        { ref: 'top', image: 'i' },
      ],
    });
    const members = await on(1).groups.members(id);
    const refOf = new Map([...members].map(([ref, run]) => [run.id, ref]));
    const [top, ...others] = await claimed(2);
    assert.deepEqual([refOf.get(top.id), others], ['top', []]);
    await complete(0, [top], () => ({ at: 'top' }));
    const sidesOfIt: any[] = [];
    while (sidesOfIt.length < 2) sidesOfIt.push(...(await claimed(sidesOfIt.length)));
    assert.deepEqual(new Set(sidesOfIt.map((op) => refOf.get(op.id))), new Set(['left', 'right']));
    assert.deepEqual(
      sidesOfIt.map(({ inputs }) => inputs),
      [{ top: 'top' }, { top: 'top' }],
    );
    await Promise.all(sidesOfIt.map((op, n) => complete(n, [op], () => ({ at: refOf.get(op.id) }))));
    const bottom = await claimed(2);
    assert.deepEqual(
      bottom.map((op) => [refOf.get(op.id), op.inputs]),
      [['bottom', { left: 'left', right: 'right' }]],
    );
    await complete(1, bottom);
    await untilCompleted(id, 4);
  });

  test('a chain of 100: one run at a time, each with the output of the one before', async () => {
    const length = 100;
    const { id } = await on(0).groups.create({
      runs: Array.from({ length }, (_, n) => ({
        ref: `r${n}`,
        image: 'i',
        ...(n === 0
          ? { inputs: { n } }
          : {
              depends_on: [{ ref: `r${n - 1}` }],
              inputs: { n: { $from: { ref: `r${n - 1}`, output: '/n' } } },
            }),
      })),
    });
    const members = await on(1).groups.members(id);
    for (let n = 0; n < length; n += 1) {
      const ops = await claimed(n);
      assert.deepEqual(
        ops.map((op) => [op.id, op.inputs]),
        [[members.get(`r${n}`).id, { n }]],
      );
      await complete(n + 1, ops, () => ({ n: n + 1 }));
    }
    await untilCompleted(id, length);
  });

  test('a fan of 5,000, as groups of 1,000 runs and as an array: all after the first run, and the last one after all', async (t) => {
    const size = 5_000;
    // The worker of the last run gets no other one.
    const run = { image: 'i', selector: ['early'] };
    const first = await on(0).groups.runs.create(run);
    const dependsOn = [{ run: first.id }];
    const groups: string[] = [];
    for (let n = 0; n < size / 1_000; n += 1) {
      const runs = Array.from({ length: 1_000 }, (_, at) => ({
        ...run,
        ref: `r${at}`,
        depends_on: dependsOn,
      }));
      groups.push((await on(n).groups.create({ runs })).id);
    }
    const array = await on(1).groups.create({ array: { size, run }, depends_on: dependsOn });
    const last = await on(2).groups.runs.create({
      selector: ['late'],
      depends_on: [...groups, array.id].map((group) => ({ group })),
      inputs: { squares: { $from: { group: array.id, output: '/square' } } },
    });
    for (const side of sides) await side.groups.runs.heartbeat('late', { tags: ['late'] });
    assert.deepEqual(
      (await claimed(0)).map((op) => op.id),
      [first.id],
    );
    assert.deepEqual(await on(1).bulk.claim('w-1', 100), []);

    const since = performance.now();
    const got = new Set<string>();
    let ended = 0;
    const late = claimed(2, 'late').then((ops) => ({ ops, after: ended }));
    await complete(1, [first]);
    const execute = async (worker: string, place: number): Promise<void> => {
      for (let n = place; got.size < 2 * size; n += 1) {
        const ops = await on(n).bulk.claim(worker, 100, { wait: WAIT });
        for (const { id } of ops) {
          assert.ok(!got.has(id), `run ${id} is claimed twice`);
          got.add(id);
        }
        ended += ops.length;
        await complete(n + 1, ops, ({ array: at }) => (at ? { square: at.index ** 2 } : {}), worker);
      }
    };
    await Promise.all(WORKERS.map(execute));
    const { ops, after } = await late;
    await t.annotate(`${2 * size} runs in ${Math.round((performance.now() - since) / 1000)} s`);
    assert.deepEqual([ops.map((op) => op.id), after], [[last.id], 2 * size]);
    assert.deepEqual(
      ops[0].inputs.squares,
      Array.from({ length: size }, (_, n) => n ** 2),
    );
    for (const id of groups) await untilCompleted(id, 1_000);
    await untilCompleted(array.id, size);
    await complete(0, ops, undefined, 'late');
  });

  test('an array of 10,000 with max_parallel 50: never more than 50 of its members are claimed or running, and all end', async (t) => {
    const size = 10_000;
    const atOnce = 50;
    const since = performance.now();
    const { id } = await on(0).groups.create({
      max_parallel: atOnce,
      array: { size, run: { image: 'i', event_delivery: { topic: 'array' } } },
    });
    await on(1).groups.untilGroup(id, ({ counts }) => counts.pending >= atOnce);

    /** Members whose claim was answered, and whose end was not sent: fewer than the service has, never more. */
    let held = 0;
    const seen = new Set<number>();
    const take = async (n: number, worker: string, max: number): Promise<any[]> => {
      const ops = await on(n).bulk.claim(worker, max, { wait: WAIT });
      held += ops.length;
      assert.ok(held <= atOnce, `${held} members are claimed`);
      for (const { array } of ops) {
        assert.ok(!seen.has(array.index), `member ${array.index} is claimed twice`);
        seen.add(array.index);
      }
      const { assigned, running, pending } = await countsOf(id);
      assert.ok(assigned + running <= atOnce, `${assigned} members are claimed and ${running} run`);
      assert.ok(pending <= maxUnstarted(atOnce), `${pending} members have not started`);
      return ops;
    };
    const execute = async (n: number, worker: string, ops: readonly any[]): Promise<void> => {
      await report(n, worker, 'STARTED', ops, () => ({ worker_id: worker }));
      held -= ops.length;
      await complete(n + 1, ops, undefined, worker);
    };

    const first: any[] = [];
    for (let n = 0; first.length < atOnce; n += 1) first.push(...(await take(n, 'w-0', 100)));
    for (const { bulk } of sides) assert.deepEqual(await bulk.claim('w-1', 100), []);
    assert.deepEqual(
      first.map(({ array }) => array.index),
      Array.from({ length: atOnce }, (_, n) => n),
    );
    await execute(1, 'w-0', first);
    await Promise.all(
      WORKERS.map(async (worker, place) => {
        for (let n = place; seen.size < size; n += 1) await execute(n + 1, worker, await take(n, worker, 20));
      }),
    );
    await untilCompleted(id, size);
    await t.annotate(`${size} members in ${Math.round((performance.now() - since) / 1000)} s`);

    const [{ deadlocks } = { deadlocks: null }] = await rows<{ deadlocks: number | null }>(
      database.dataSource,
      'select deadlocks::integer from pg_stat_database where datname = current_database()',
    );
    assert.equal(deadlocks, 0);

    // In the order of the commits of all processes.
    let running = 0;
    let ended = 0;
    for (let after = '', more = true; more;) {
      const { body } = await on(2).bulk.send('GET', `/feed?topic=array&limit=500${after}`);
      for (const { type } of body.events) {
        if (type === 'STARTED') running += 1;
        else {
          running -= 1;
          ended += 1;
        }
        assert.ok(running >= 0 && running <= atOnce, `${running} members run after ${ended} ends`);
      }
      after = `&after=${encodeURIComponent(body.next_cursor)}`;
      more = body.has_more;
    }
    assert.equal(ended, size);
  });
});
