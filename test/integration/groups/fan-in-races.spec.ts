import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { DEPENDENCIES } from '../../../src/groups/members/groups.job.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { testRounds } from '../../support/depth.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

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

describe('runs that several processes end at the same time', () => {
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
       select d.child_run from dependencies d where d.outcome is null
        union all
       select e.parent_id from dependency_ends e`,
    );
    assert.deepEqual(wrong, []);
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
