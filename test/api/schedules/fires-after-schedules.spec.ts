import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

const HOUR = 3_600_000;

/** A body whose runs wait for what another schedule makes. */
const after = (schedule: string, more: object = {}) => ({
  run: { image: 'i', depends_on: [{ schedule, ...more }] },
});

describe('a schedule whose runs wait for those of another schedule', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const groups = new GroupSteps(service);
  beforeAll(() => steps.stopJobs());

  const explain = async (id: string) => (await service.send('GET', `/runs/${id}/explain`)).body;
  const waitingFor = async (id: string) => (await explain(id)).waiting_for;
  /** A schedule has a time to account for that no process fires yet, as if jitter delayed it; the times before it count as its own. */
  const delay = async (id: string, at: Date): Promise<void> => {
    const changed = await execute(
      service.dataSource,
      `update schedules
          set next_at = $2::timestamptz, due_at = now() + interval '1 day', times_since = $2::timestamptz - interval '3 days'
        where id = $1::text`,
      [id, at.toISOString()],
    );
    assert.equal(changed, 1);
  };
  /** The run that a schedule makes for a time. */
  const fire = async (id: string, at = steps.lastHour()): Promise<string> => {
    await steps.fireFrom(id, at);
    const [newest] = await steps.fires(id);
    assert.equal(newest.outcome, 'created', JSON.stringify(newest));
    return newest.run_id ?? newest.group_id;
  };
  /** What the last event of a run that the wait has cancelled tells. */
  const cancelled = async (id: string) => {
    await groups.untilRun(id, ({ state }) => state === 'CANCELLED');
    const event = (await groups.runs.poll(id)).at(-1);
    assert.equal(event.type, 'CANCELLED');
    assert.equal(event.payload.cause, 'dependency');
    return event.payload;
  };
  const pause = async (id: string): Promise<void> => {
    const { status, text } = await service.send('POST', `/schedules/${id}/pause`, { body: {} });
    assert.equal(status, 200, text);
  };
  const untilMade = (id: string) =>
    until(
      () => waitingFor(id),
      ([end]) => typeof end?.run === 'string' || end?.group !== undefined,
    );

  test('lets its run wait for the time that the other has not fired yet, then for the run, then start', async () => {
    const at = steps.lastHour();
    await steps.put('import');
    await steps.put('report', after('import'));
    await delay('import', at);
    const run = await fire('report');
    const time = { schedule: 'import', nominal_at: at.toISOString() };
    assert.deepEqual(await waitingFor(run), [{ ...time, run: null, state: null, when: 'completed' }]);
    const { reason, summary } = await explain(run);
    assert.equal(reason, 'dependency');
    assert.ok(
      summary.includes(`what schedule 'import' makes for ${at.toISOString()} (not made yet)`),
      summary,
    );
    const parent = await fire('import');
    assert.deepEqual(await untilMade(run), [{ ...time, run: parent, state: 'PENDING', when: 'completed' }]);
    assert.ok((await explain(run)).summary.includes(`run ${parent} of schedule 'import' (PENDING)`));
    await groups.end(parent);
    await groups.untilReady(run);
  });

  test('does not let its run wait when the run of the other has ended as it is needed', async () => {
    await steps.put('early');
    await groups.end(await fire('early'), 'FAILED');
    await steps.put('cleanup', after('early', { when: 'failed' }));
    await groups.untilReady(await fire('cleanup'));
  });

  test('has its run cancelled when the run of the other ends otherwise than it is needed', async () => {
    await steps.put('fragile', { run: { image: 'i', retry_policy: { max_attempts: 1 } } });
    const parent = await fire('fragile');
    await steps.put('needing', after('fragile'));
    const run = await fire('needing');
    await groups.end(parent, 'FAILED');
    assert.deepEqual(await cancelled(run), { cause: 'dependency', run_id: parent });
  });

  test('has its run cancelled with schedule and reason when the other makes none for the time', async () => {
    const at = steps.lastHour();
    const none = `has made nothing for ${at.toISOString()}`;
    await steps.put('other-times', { every_s: 3600, offset_s: 1800 });
    await steps.put('overlapping');
    await service.send('POST', '/schedules/overlapping/trigger');
    await steps.put('pausing');
    await steps.put('gone');
    const cases: Record<string, string> = {
      'other-times': `${none}: it is no time of it, or passed in a pause`,
      overlapping: `${none}: skipped_overlap, `,
      pausing: `${none}: skipped_missed, were due when the schedule was paused`,
      gone: `Schedule 'gone' was deleted`,
    };
    for (const id of ['overlapping', 'pausing', 'gone']) await delay(id, at);
    const runs = new Map<string, string>();
    for (const id of Object.keys(cases)) {
      await steps.put(`after-${id}`, after(id, { when: 'ended' }));
      runs.set(id, await fire(`after-${id}`));
    }
    assert.equal((await waitingFor(runs.get('gone') ?? '')).length, 1);
    await steps.fireFrom('overlapping', at);
    await pause('pausing');
    await service.send('DELETE', '/schedules/gone');
    for (const [id, expected] of Object.entries(cases)) {
      const { schedule, reason } = await cancelled(runs.get(id) ?? '');
      assert.equal(schedule, id);
      assert.ok(reason.includes(expected), reason);
    }
  });

  test('waits for no trigger of the other, also when it is triggered itself', async () => {
    await steps.put('triggered');
    await service.send('POST', '/schedules/triggered/trigger');
    await steps.put('after-trigger', after('triggered'));
    const { body } = await service.send('POST', '/schedules/after-trigger/trigger');
    assert.equal((await cancelled(body.run_id)).schedule, 'triggered');
  });

  test('lets its run wait for all times of the same date, each in the zone of its schedule, also for those to come', async () => {
    const day = new Date(Math.floor(Date.now() / (24 * HOUR)) * 24 * HOUR);
    const before = new Date(day.getTime() - 24 * HOUR);
    const date = before.toISOString().slice(0, 10);
    await steps.put('six-hours', {
      cron: ['0 */6 * * *'],
      timezone: 'Asia/Tokyo',
      overlap: 'allow',
      catch_up: { policy: 'all', window_s: 4 * 86_400 },
    });
    await steps.put('daily', {
      cron: ['0 0 * * *'],
      catch_up: { policy: 'all', window_s: 4 * 86_400 },
      ...after('six-hours', { same: 'date' }),
    });
    const first = new Date(before.getTime() - 9 * HOUR);
    await delay('six-hours', first);
    await steps.setNext('daily', before);
    await steps.job.runOnce();
    const fires = await steps.fires('daily');
    const run = fires.find(({ nominal_at: at }) => at === before.toISOString())?.run_id;
    const times = [0, 6, 12, 18].map((hours) => new Date(first.getTime() + hours * HOUR).toISOString());
    assert.deepEqual(
      (await waitingFor(run)).map(({ nominal_at: at }: { nominal_at: string }) => at),
      times,
      date,
    );
    await steps.setNext('six-hours', first);
    await steps.job.runOnce();
    const made = (await steps.fires('six-hours')).filter(({ nominal_at: at }) => times.includes(at));
    assert.equal(made.length, 4);
    for (const { run_id: id } of made.slice(1)) await groups.end(id);
    await until(
      () => waitingFor(run),
      (ends) => ends.length === 1,
    );
    await groups.end(made[0].run_id);
    await groups.untilReady(run);
  });

  test('keeps its run waiting for a time to come while the other is paused, and has it cancelled when the other has no time on the date', async () => {
    const hours = (new Date().getUTCHours() + 1) % 24;
    // Between 23:00 and midnight there is no later time on the date.
    const later = hours === 0 ? '59 23 * * *' : `0 ${hours} * * *`;
    await steps.put('later', { cron: [later] });
    await steps.put('before-it', after('later', { same: 'date' }));
    const run = await fire('before-it');
    const [{ nominal_at: at }] = await waitingFor(run);
    assert.ok(new Date(at) > new Date());
    await pause('later');
    await steps.put('empty', { cron: ['0 0 29 2 *'] });
    await steps.put('after-empty', after('empty', { same: 'date' }));
    const never =
      new Date().getUTCMonth() === 1 && new Date().getUTCDate() === 29 ? null : await fire('after-empty');
    if (never !== null) assert.equal((await cancelled(never)).schedule, 'empty');
    assert.equal((await waitingFor(run))[0].run, null);
    await execute(
      service.dataSource,
      `update dependencies set nominal_at = now() where schedule_id = 'later'`,
    );
    await pause('later');
    assert.equal((await cancelled(run)).schedule, 'later');
  });

  test('lets members of its groups and its arrays wait, and waits for groups', async () => {
    const at = steps.lastHour();
    await steps.put('parents', { group: { runs: [{ ref: 'a', image: 'i' }] } });
    const members = { ref: 'free', image: 'i' };
    await steps.put('pair', {
      group: {
        runs: [members, { ref: 'bound', image: 'i', depends_on: [{ ref: 'free' }, { schedule: 'parents' }] }],
      },
    });
    await steps.put('many', {
      group: { depends_on: [{ schedule: 'parents' }], array: { size: 2, run: { image: 'i' } } },
    });
    await delay('parents', at);
    const [pair, many] = [await fire('pair'), await fire('many')];
    const own = await groups.members(pair);
    await groups.end(own.get('free').id);
    assert.equal(await groups.reason(own.get('bound').id), 'dependency');
    assert.deepEqual((await groups.get(many)).waiting_for, [
      { schedule: 'parents', nominal_at: at.toISOString(), run: null, state: null, when: 'completed' },
    ]);
    assert.equal((await groups.get(many)).counts.uncreated, 2);
    assert.equal((await service.send('GET', `/groups/${pair}/graph`)).body.edges.length, 1);
    const parent = await fire('parents');
    await groups.untilGroup(many, ({ waiting_for: [end] }) => end.group === parent);
    await groups.end((await groups.members(parent)).get('a').id);
    await groups.untilReady(own.get('bound').id);
    await groups.untilGroup(many, ({ counts }) => counts.pending === 2);
    await steps.put('no-parents', { every_s: 3600, offset_s: 60 });
    await steps.put('stopped', {
      group: { depends_on: [{ schedule: 'no-parents' }], array: { size: 2, run: { image: 'i' } } },
    });
    const stopped = await groups.untilGroup(await fire('stopped'), ({ state }) => state === 'cancelled');
    assert.ok(stopped.reason.startsWith(`Schedule 'no-parents' has made nothing for`), stopped.reason);
  });

  test('lets the run that queue_one holds start when the run before it and that of the other schedule have ended', async () => {
    await steps.put('feeding', { every_s: 10, overlap: 'allow' });
    const first = new Date(Math.floor(Date.now() / 10_000) * 10_000 - 10_000);
    await delay('feeding', first);
    await steps.put('queued', { every_s: 10, overlap: 'queue_one', ...after('feeding') });
    await steps.fireFrom('queued', first);
    const [one, two] = (await steps.fires('queued')).toReversed().map(({ run_id: id }) => id);
    await steps.fireFrom('feeding', first);
    for (const { run_id: id } of await steps.fires('feeding')) await groups.end(id);
    await groups.untilReady(one);
    await steps.job.followEnds();
    assert.equal(await groups.reason(two), 'dependency');
    await groups.end(one);
    await groups.untilReady(two);
  });

  test('leads its run to the run of the other when two processes fire both at the same moment', async () => {
    const second = await startTestApp({ database: service.database });
    const others = new ScheduleSteps(second);
    others.stopJobs();
    const at = steps.lastHour();
    for (let round = 0; round < 10; round += 1) {
      const [parent, child] = [`left-${round}`, `right-${round}`];
      await steps.put(parent);
      await steps.put(child, after(parent));
      for (const id of [parent, child]) await steps.setNext(id, at);
      await Promise.all([steps.job.runOnce(), others.job.runOnce()]);
      const [[made], [waiting]] = [await steps.fires(parent), await steps.fires(child)];
      assert.equal((await untilMade(waiting.run_id))[0].run, made.run_id);
      await groups.end(made.run_id);
      await groups.untilReady(waiting.run_id);
    }
    await second.close();
  });

  test('is refused with an unknown schedule, with itself, in a circle, and with wrong entries', async () => {
    const refusal = async (id: string, body: object): Promise<string> => {
      const answer = await service.send('PUT', `/schedules/${id}`, { body: { every_s: 3600, ...body } });
      assert.equal(answer.status, 400, answer.text);
      return answer.text;
    };
    await steps.put('a');
    await steps.put('b', after('a'));
    await steps.put('c', {
      group: { runs: [{ ref: 'x', image: 'i', depends_on: [{ schedule: 'b' }] }] },
    });
    const circle = 'run: depends_on: schedules wait for each other: ';
    assert.ok(
      (await refusal('d', after('nobody'))).includes(`run: depends_on: there is no schedule 'nobody'`),
    );
    assert.ok((await refusal('a', after('a'))).includes(`${circle}a -> a`));
    assert.ok((await refusal('a', after('c'))).includes(`${circle}a -> c -> b -> a`));
    assert.ok(
      (await refusal('d', after('a', { same: 'week' }))).includes('depends_on[0]: same must be one of'),
    );
    assert.match(await refusal('d', after('a', { run: 'x' })), /depends_on\[0\]: .*run/);
    await steps.put('seconds', { every_s: 10 });
    assert.ok(
      (await refusal('d', after('seconds', { same: 'date' }))).includes('has more than 1500 times on'),
    );
    const sources = { inputs: { x: { $from: { schedule: 'a', output: '/x' } } } };
    assert.ok((await refusal('d', { run: { ...after('a').run, ...sources } })).includes('inputs.x.$from'));
    assert.equal((await service.send('GET', '/schedules/d')).status, 404);
    const body = { image: 'i', depends_on: [{ schedule: 'a' }] };
    assert.equal((await service.send('POST', '/runs', { body })).status, 400);
    const members = { runs: [{ ref: 'x', ...body }] };
    assert.equal((await service.send('POST', '/groups', { body: members })).status, 400);
  });

  test('cannot be put into a circle by two requests at once', async () => {
    await steps.put('east');
    await steps.put('west');
    const answers = await Promise.all(
      [
        ['east', 'west'],
        ['west', 'east'],
      ].map(([id, other = '']) =>
        service.send('PUT', `/schedules/${id}`, { body: { every_s: 3600, ...after(other) } }),
      ),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 400]));
  });
});
