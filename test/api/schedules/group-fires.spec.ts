import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

const HOUR = 3_600_000;
const PAIR = {
  runs: [
    { ref: 'a', image: 'i' },
    { ref: 'b', image: 'i', depends_on: [{ ref: 'a' }] },
  ],
};
const ARRAY = { array: { size: 2, run: { image: 'i' } } };

describe('a schedule of groups', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const groups = new GroupSteps(service);
  beforeAll(() => steps.stopJobs());

  const finish = async (id: string, type?: 'FAILED'): Promise<void> => {
    for (const run of (await groups.members(id)).values()) await groups.end(run.id, type);
  };

  test('makes a group for each time, whose members are runs of the schedule with its time and labels', async () => {
    const group = {
      name: 'nightly',
      labels: { day: 'group', own: 'group' },
      inputs: { day: '${schedule.date}' },
      runs: [
        { ref: 'a', image: 'i', args: ['${schedule.time}', '${group.id}', '${inputs.day}'] },
        { ref: 'b', image: 'i', labels: { own: 'b' }, depends_on: [{ ref: 'a' }] },
      ],
    };
    const put = await steps.put('each', { group, labels: { team: 'x', day: 'schedule' } });
    assert.deepEqual([put.run, put.group], [null, group]);
    await steps.fireFrom('each', steps.lastHour());
    const [fire, ...others] = await steps.fires('each');
    assert.deepEqual(others, []);
    assert.deepEqual(
      [fire.outcome, fire.run_id, fire.run_state, fire.group_state],
      ['created', null, null, 'open'],
    );
    const made = await groups.get(fire.group_id);
    assert.deepEqual([made.schedule.id, made.created_by, made.counts.pending], ['each', null, 2]);
    assert.equal(new Date(made.schedule.time).getTime(), steps.lastHour().getTime());
    const members = await groups.members(fire.group_id);
    assert.deepEqual(
      [members.get('a').labels, members.get('b').labels],
      [
        { team: 'x', day: 'group', own: 'group' },
        { team: 'x', day: 'group', own: 'b' },
      ],
    );
    const { time } = made.schedule;
    assert.deepEqual(members.get('a').args, [time, fire.group_id, time.slice(0, 10)]);
    assert.equal((await steps.runs('each')).length, 2);
    const explained = (await service.send('GET', `/runs/${members.get('b').id}/explain`)).body;
    assert.deepEqual(explained.schedule, made.schedule);
    assert.equal((await steps.get('each')).newest_run_state, 'open');
  });

  test('makes arrays whose members, which are made later, have its time and labels', async () => {
    await service.send('POST', '/definitions', {
      body: { id: 'd', version: '1', image: 'i', labels: { gone: 'x', kept: 'x' } },
    });
    const run = { definition: 'd', args: ['${schedule.date}', '${array.index}'] };
    await steps.put('array', {
      labels: { team: 'x' },
      group: { labels: { gone: null }, array: { size: 2, run } },
    });
    await steps.fireFrom('array', steps.lastHour());
    const [{ group_id: id }] = await steps.fires('array');
    const { schedule } = await groups.untilGroup(id, ({ counts }) => counts.uncreated === 0);
    const members = await groups.members(id);
    assert.deepEqual(
      [0, 1].map((index) => [
        members.get(index).args,
        members.get(index).labels,
        members.get(index).schedule,
      ]),
      ['0', '1'].map((index) => [[schedule.time.slice(0, 10), index], { team: 'x', kept: 'x' }, schedule]),
    );
  });

  test('makes one at a trigger, and at a backfill one for each time that has none', async () => {
    await steps.put('asked', { group: PAIR, overlap: 'allow' });
    const { body: fire } = await service.send('POST', '/schedules/asked/trigger');
    assert.equal((await groups.get(fire.group_id)).schedule.id, 'asked');
    const range = {
      from: steps.lastHour(3).toISOString(),
      until: new Date(steps.lastHour().getTime() - HOUR).toISOString(),
    };
    const backfill = async (): Promise<unknown> =>
      (await service.send('POST', '/schedules/asked/backfill', { body: range })).body;
    assert.deepEqual(await backfill(), { times: 3, created: 3, existing: 0, failed: 0 });
    assert.deepEqual(await backfill(), { times: 3, created: 0, existing: 3, failed: 0 });
    const { body: listed } = await service.send('GET', '/groups?schedule=asked');
    assert.equal(listed.length, 4);
  });

  describe('whose group has not ended at the next time', () => {
    test('makes none, and names the group in the way', async () => {
      const [made, ...others] = await steps.fireTwice('skipping', { group: PAIR, overlap: 'skip' });
      assert.deepEqual(others, []);
      const [last] = await steps.fires('skipping');
      assert.deepEqual(
        [last.outcome, last.group_id, last.reason],
        ['skipped_overlap', null, `group ${made.group_id} has not ended`],
      );
    });

    test('makes one of which no member may be claimed before the first group has ended, and no third', async () => {
      const [first, held, ...others] = await steps.fireTwice('queueing', {
        group: PAIR,
        overlap: 'queue_one',
      });
      assert.deepEqual(others, []);
      await steps.fireFrom('queueing', new Date(Math.floor(Date.now() / 10_000) * 10_000));
      const [last] = await steps.fires('queueing');
      assert.equal(last.reason, `group ${held.group_id} waits already`);
      const members = await groups.members(held.group_id);
      const reasons = (): Promise<(string | null)[]> =>
        Promise.all(['a', 'b'].map((ref) => groups.reason(members.get(ref).id)));
      const waiting = await groups.members(first.group_id);
      await groups.end(waiting.get('a').id);
      await groups.untilReady(waiting.get('b').id);
      await steps.job.followEnds();
      assert.deepEqual(await reasons(), ['concurrency', 'dependency']);
      await groups.end(waiting.get('b').id);
      await steps.job.followEnds();
      assert.deepEqual(await reasons(), ['no_worker', 'dependency']);
      await groups.end(members.get('a').id);
      await groups.untilReady(members.get('b').id);
    });

    test('makes an array that gets its members when the first has ended', async () => {
      const [first, held] = await steps.fireTwice('queueing-arrays', { group: ARRAY, overlap: 'queue_one' });
      await groups.untilGroup(first.group_id, ({ counts }) => counts.pending === 2);
      const waiting = await groups.get(held.group_id);
      assert.deepEqual(
        [waiting.counts.uncreated, waiting.waiting_for],
        [2, [{ group: first.group_id, state: 'open', when: 'ended' }]],
      );
      await finish(first.group_id);
      await groups.untilGroup(held.group_id, ({ counts }) => counts.pending === 2);
    });

    test('cancels it and makes the next', async () => {
      const body = { group: PAIR, overlap: 'cancel_previous' };
      const [first, ...others] = await steps.fireTwice('cancelling', body);
      assert.deepEqual(others, []);
      await steps.fireFrom('cancelling', new Date(Math.floor(Date.now() / 10_000) * 10_000));
      const { reason } = await groups.untilGroup(first.group_id, ({ state }) => state === 'cancelled');
      assert.equal(reason, "Replaced by the next group of schedule 'cancelling'");
      const [last] = await steps.fires('cancelling');
      assert.deepEqual([last.group_state, last.group_id === first.group_id], ['open', false]);
    });
  });

  test('is paused when so many groups in a row have failed, whatever its single runs did', async () => {
    await steps.put('failing', { group: PAIR, overlap: 'allow', pause_after_failures: 2 });
    for (const hoursAgo of [1, 0]) {
      const { body: fire } = await service.send('POST', '/schedules/failing/trigger');
      const members = await groups.members(fire.group_id);
      await groups.end(members.get('a').id, 'FAILED');
      await groups.untilGroup(fire.group_id, ({ state }) => state === 'failed');
      await steps.job.followEnds();
      assert.equal((await steps.get('failing')).paused, hoursAgo === 0);
    }
    assert.equal((await steps.get('failing')).paused_note, 'The last 2 groups have FAILED');
  });

  const refused: readonly [string, object, string][] = [
    ['beside a run', { run: { image: 'i' }, group: PAIR }, 'exactly one of run and group must be given'],
    ['of neither runs nor an array', { group: {} }, 'group: exactly one of runs and array must be given'],
    ['with an unknown field', { group: { ...PAIR, foo: 1 } }, 'group: foo is not a known field'],
    [
      'with a start of a member',
      { group: { runs: [{ ref: 'a', image: 'i', start_at: '2030-01-01T00:00:00Z' }] } },
      'group: runs[0]: start_at must be absent',
    ],
    [
      'with a reference that members do not have',
      { group: { runs: [{ ref: 'a', image: 'i', args: ['${array.index}'] }] } },
      'group: runs[0]: args[0]: ${array.index}',
    ],
  ];
  for (const [title, body, line] of refused) {
    test(`is refused with a group ${title}, and nothing is stored`, async () => {
      const answer = await service.send('PUT', '/schedules/refused', { body: { every_s: 60, ...body } });
      assert.equal(answer.status, 400, answer.text);
      const lines: string[] = answer.body.errors ?? answer.body.detail;
      assert.ok(
        lines.some((one) => one.startsWith(line)),
        answer.text,
      );
      assert.equal((await service.send('GET', '/schedules/refused')).status, 404);
    });
  }
});
