import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { DEPENDENCIES } from '../../../src/groups/members/groups.job.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { until } from '../../support/app/passing-time.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { atDepth, testRounds } from '../../support/depth.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { checkWaits } from '../../support/runs/run-invariants.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const ROUNDS = testRounds({ fast: 10, all: 100 });
const PARENTS = Array.from({ length: 16 }, (_, i) => `p${i}`);
const FAN_IN = {
  runs: [
    ...PARENTS.map((ref) => ({ ref, image: 'i' })),
    {
      ref: 'child',
      image: 'i',
      depends_on: PARENTS.map((ref, i) => ({ ref, when: i % 4 ? 'completed' : 'ended' })),
    },
  ],
};

describe('runs that several processes end at the same time', { timeout: 900_000 + ROUNDS * 5_000 }, () => {
  const database = useTestDatabase();
  let apps: TestApp[];
  let sides: GroupSteps[];

  beforeAll(async () => {
    apps = [];
    for (const _ of PARENTS.slice(0, 4)) apps.push(await startTestApp({ database }));
    sides = apps.map((app) => new GroupSteps(app));
    for (const side of sides) await side.runs.heartbeat();
  });
  afterAll(async () => {
    for (const app of apps) await app.close();
  });

  const on = (i: number): GroupSteps => sides[i % sides.length] ?? assert.fail('there are processes');
  const patch = (i: number, id: string, state: string): Promise<any> =>
    on(i).runs.send('PATCH', `/runs/${id}`, { body: { state } });

  const untilTold = (): Promise<unknown> =>
    until(
      () => rows(database.dataSource, 'select id from dependency_ends limit 1'),
      (ends) => ends.length === 0,
    );

  /** What is wrong with the numbers of groups and with what waits, of everything that is stored. */
  const check = async (): Promise<void> => {
    const wrong = await rows(
      database.dataSource,
      `select g.id from groups g
         left join lateral (
           select count(*) as created, count(*) filter (where r.state = 'PENDING') as pending, count(*) filter (where r.state = 'ASSIGNED') as assigned,
                  count(*) filter (where r.state = 'COMPLETED') as completed, count(*) filter (where r.state = 'CANCELLED') as cancelled
             from runs r
            where r.group_id = g.id
         ) n on true
        where (g.created, g.pending, g.assigned, g.completed, g.cancelled)
              is distinct from (n.created, n.pending, n.assigned, n.completed, n.cancelled)
        union all
       select d.child_run from dependencies d where d.outcome is null`,
    );
    assert.deepEqual(wrong, []);
    await checkWaits(database.dataSource);
  };

  test('make a run ready once that waits for 16 of them: one claim gets it', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id } = await on(round).create(FAN_IN);
      const members = await on(round).members(id);
      const { id: child } = members.get('child');
      await Promise.all(
        PARENTS.map((ref, i) => patch(round + i, members.get(ref).id, i % 4 ? 'COMPLETED' : 'CANCELLED')),
      );
      await on(round).untilReady(child);
      await on(round).runs.heartbeat();
      const claims = await Promise.all(sides.map((side) => side.runs.claim()));
      assert.deepEqual(
        claims.flat().map((op) => op.id),
        [child],
      );
      await check();
      await patch(round, child, 'COMPLETED');
      const { state, counts } = await on(round + 1).get(id);
      assert.deepEqual([state, counts.completed, counts.cancelled], ['cancelled', 13, 4]);
    }
  });

  test('are seen by a run that another process makes at that moment', async () => {
    for (let round = 0; round < 2 * ROUNDS; round += 1) {
      const parent = await on(round).runs.create();
      const body = { depends_on: [{ run: parent.id }] };
      const [, ...children] = await Promise.all([
        patch(round, parent.id, round % 2 ? 'COMPLETED' : 'CANCELLED'),
        on(round + 1).runs.create(body),
        on(round + 2).runs.create(body),
      ]);
      for (const { id } of children) {
        if (round % 2) await on(round).untilReady(id);
        else await on(round).untilRun(id, ({ state }) => state === 'CANCELLED');
        await patch(round, id, 'CANCELLED');
      }
    }
    await check();
  });

  test('are tried again while others of the group end, and none waits for what has ended', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id } = await on(round).create(FAN_IN);
      const members = await on(round).members(id);
      const idOf = (ref: string): string => members.get(ref).id;
      await on(round).end(idOf('p1'), 'FAILED');
      await on(round).untilRun(idOf('child'), ({ state }) => state === 'CANCELLED');
      const [first = '', ...others] = PARENTS.filter((ref) => ref !== 'p1');
      await patch(round, idOf(first), 'COMPLETED');
      await Promise.all([
        on(round + 1).retry(id),
        ...others.map((ref, i) => patch(round + i, idOf(ref), 'COMPLETED')),
      ]);
      await patch(round, idOf('p1'), 'COMPLETED');
      await on(round).untilReady(idOf('child'));
      await patch(round, idOf('child'), 'COMPLETED');
      const { state, counts } = await on(round).get(id);
      assert.deepEqual([state, counts.completed], ['completed', 17]);
    }
    await check();
  });

  test('are opened again by an admin while those that wait learn of their ends: what is made later waits for the next end', async () => {
    for (let round = 0; round < atDepth({ fast: 10, all: 100 }); round += 1) {
      const end = round % 2 ? 'COMPLETED' : 'FAILED';
      const [p, q] = [await on(round).runs.create(), await on(round).runs.create()];
      const body = { depends_on: [{ run: p.id }, { run: q.id }] };
      const early = await on(round).runs.create(body);
      await patch(round, p.id, end);
      const [, late] = await Promise.all([
        patch(round + 1, p.id, 'PENDING'),
        on(round + 2).runs.create(body),
      ]);
      await patch(round, p.id, 'COMPLETED');
      await untilTold();
      assert.equal((await on(round).runs.get(early.id)).state, end === 'FAILED' ? 'CANCELLED' : 'PENDING');
      const waiting = [early, late].filter(({ id, state }) =>
        id === late.id ? state === 'PENDING' : end === 'COMPLETED',
      );
      for (const { id } of waiting) assert.equal(await on(round).reason(id), 'dependency');
      await patch(round, q.id, 'COMPLETED');
      for (const { id } of waiting) await on(round).untilReady(id);
      for (const { id } of [early, late]) await patch(round, id, 'CANCELLED');
      await check();
    }
  });

  test('are told to groups that users cancel at that moment: no member starts, and a retry goes on from there', async () => {
    for (let round = 0; round < atDepth({ fast: 6, all: 60 }); round += 1) {
      const isMet = round % 3 > 0;
      const { id: run } = await on(round).runs.create();
      const first = { ref: 'first', image: 'i', depends_on: [{ run }] };
      const second = { ref: 'second', image: 'i', depends_on: [{ ref: 'first' }] };
      const { id: group } = await on(round).create({ runs: [first, second] });
      const array = { array: { size: 2, run: { image: 'i' } }, depends_on: [{ run }] };
      const { id: other } = await on(round).create(array);
      const child = await on(round).runs.create({ depends_on: [{ group }, { group: other }] });
      const [, ...cancelled] = await Promise.all([
        patch(round, run, isMet ? 'COMPLETED' : 'FAILED'),
        on(round + 1).runs.send('POST', `/groups/${group}/cancel`),
        on(round + 2).runs.send('POST', `/groups/${other}/cancel`),
      ]);
      // What waits for a run that FAILED may have ended before.
      for (const { status } of cancelled) assert.ok(status === 200 || (status === 409 && !isMet));
      for (const id of [group, other]) await on(round).untilGroup(id, ({ state }) => state === 'cancelled');
      await on(round).untilRun(child.id, ({ state }) => state === 'CANCELLED');
      assert.deepEqual((await Promise.all(sides.map((side) => side.runs.claim()))).flat(), []);
      await check();
      if (!isMet) continue;
      for (const id of [group, other]) await on(round + 3).retry(id, { only: 'all' });
      await on(round).untilGroup(other, ({ counts }) => counts.uncreated === 0);
      for (const id of [group, other]) {
        for (const member of [...(await on(round).members(id)).values()].toReversed()) {
          await on(round).untilReady(member.id);
          await patch(round, member.id, 'COMPLETED');
        }
      }
      await on(round).untilRun(child.id, ({ state }) => state === 'PENDING');
      await patch(round, child.id, 'CANCELLED');
      await check();
    }
  });

  test('fail while their group is tried again: it completes after further retries', async () => {
    for (let round = 0; round < atDepth({ fast: 6, all: 60 }); round += 1) {
      const child = { ref: 'child', image: 'i', depends_on: [{ ref: 'a' }, { ref: 'b' }] };
      const { id } = await on(round).create({
        runs: [{ ref: 'a', image: 'i' }, { ref: 'b', image: 'i' }, child],
      });
      const members = await on(round).members(id);
      const ids = ['a', 'b', 'child'].map((ref): string => members.get(ref).id);
      const [a = '', b = '', last = ''] = ids;
      await on(round).end(a, 'FAILED');
      await on(round).untilRun(last, ({ state }) => state === 'CANCELLED');
      await Promise.all([on(round + 1).retry(id), on(round + 2).end(b, 'FAILED')]);
      for (let tries = 0; (await on(round).get(id)).state !== 'completed'; tries += 1) {
        assert.ok(tries < 3, 'a retry opens all that failed, and what that had cancelled');
        for (const run of ids) {
          await untilTold();
          const { state } = await on(round).runs.get(run);
          if (state === 'PENDING' && (await on(round).reason(run)) !== 'dependency')
            await patch(round, run, 'COMPLETED');
        }
        await untilTold();
        await checkWaits(database.dataSource);
        if ((await on(round).get(id)).state !== 'completed') await on(round + tries).retry(id);
      }
      await check();
    }
  });

  test('of a process that dies before it tells those that wait: another one tells them when it starts', async () => {
    for (const { app } of apps) app.get(SchedulerRegistry).deleteTimeout(DEPENDENCIES);
    const parent = await on(0).runs.create();
    const child = await on(0).runs.create({ depends_on: [{ run: parent.id }] });
    await on(0).end(parent.id);
    assert.equal(await on(0).reason(child.id), 'dependency');
    const later = await Promise.all([startTestApp({ database }), startTestApp({ database })]);
    await on(0).untilReady(child.id);
    for (const app of later) await app.close();
    await check();
  });
});
