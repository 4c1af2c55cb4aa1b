import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe('a schedule', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const runs = new RunSteps(service.send);
  beforeAll(() => steps.stopJobs());

  const outcomes = async (id: string): Promise<string[]> =>
    (await steps.fires(id)).map(({ outcome }) => outcome).toReversed();
  const end = (id: string, type = 'FAILED'): Promise<unknown> =>
    runs.event(id, type, type === 'FAILED' ? { error_message: 'x' } : {});
  /** Takes the run of the schedule to its end. */
  const finish = async (run: { id: string }, type: 'COMPLETED' | 'FAILED'): Promise<void> => {
    await service.send('PATCH', `/runs/${run.id}`, { body: { state: 'RUNNING' } });
    await end(run.id, type);
  };

  test('makes a run for each of its times, which names schedule and time, and goes on with the next', async () => {
    const made = await steps.put('each', {
      cron: ['* * * * *'],
      timezone: 'Europe/Berlin',
      labels: { team: 'a', day: 'x' },
      run: {
        image: 'i',
        name: 'nightly',
        labels: { day: 'y' },
        inputs: { from: '${schedule.previous}', big: 1e21 },
        args: ['${inputs.from}', '${schedule.date}', '${run.name}', { flag: '--big', input: 'big' }],
        env: { NEXT: '${schedule.next}', COST: '$${x}' },
      },
    });
    assert.deepEqual([made.paused, made.last, made.next.length], [false, [], 10]);
    const at = new Date(Math.floor(Date.now() / MINUTE) * MINUTE);
    await steps.fireFrom('each', at);
    const [fire, ...others] = await steps.fires('each');
    assert.deepEqual(others, []);
    assert.deepEqual(
      [fire.nominal_at, fire.outcome, fire.kind, fire.run_state],
      [at.toISOString(), 'created', 'schedule', 'PENDING'],
    );
    const run = await runs.get(fire.run_id);
    assert.equal(new Date(run.schedule.time).getTime(), at.getTime());
    assert.match(run.schedule.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\+0[12]:00$/);
    const shift = (by: number): string => steps.shown(new Date(at.getTime() + by), run.schedule.time);
    assert.deepEqual(
      [run.schedule.id, run.source, run.created_by, run.labels],
      ['each', 'schedule', null, { team: 'a', day: 'y' }],
    );
    assert.deepEqual(run.args, [shift(-MINUTE), run.schedule.time.slice(0, 10), 'nightly', '--big', '1e+21']);
    assert.deepEqual(run.env, { NEXT: shift(MINUTE), COST: '${x}' });
    const explained = (await service.send('GET', `/runs/${run.id}/explain`)).body;
    assert.deepEqual(explained.schedule, run.schedule);
    assert.ok(
      explained.summary.endsWith(` Made by schedule 'each' for ${run.schedule.time}.`),
      explained.summary,
    );
    const shown = await steps.get('each');
    assert.deepEqual([shown.newest_run_state, shown.counts.created], ['PENDING', 1]);
    assert.equal(new Date(shown.next[0]).getTime(), at.getTime() + MINUTE);
  });

  test('makes one run for a time, however many processes fire it at once', async () => {
    const other = await startTestApp({ database: service.database });
    const others = new ScheduleSteps(other);
    others.stopJobs();
    for (let n = 0; n < 20; n += 1) await steps.put(`raced-${n}`);
    const at = steps.lastHour();
    await execute(
      service.dataSource,
      `update schedules set next_at = $1::timestamptz, due_at = now() where id like 'raced-%'`,
      [at.toISOString()],
    );
    // The lease of one is over while it still fires.
    const expire = (): Promise<number> =>
      execute(
        service.dataSource,
        `update schedules set due_at = now() where id like 'raced-%' and next_at = $1::timestamptz`,
        [at.toISOString()],
      );
    await Promise.all([
      steps.job.runOnce(),
      others.job.runOnce(),
      expire().then(() => others.job.runOnce()),
      expire().then(() => steps.job.runOnce()),
    ]);
    const [counts] = await rows<{ fires: number; runs: number }>(
      service.dataSource,
      `select (select count(*)::integer from schedule_fires where schedule_id like 'raced-%') as fires,
              (select count(*)::integer from runs where schedule_id like 'raced-%') as runs`,
    );
    assert.deepEqual(counts, { fires: 20, runs: 20 });
    await other.close();
  });

  /** Fires two times, ten seconds apart, as soon as both are due. */
  const fireTwice = async (id: string, body: object): Promise<Json> => {
    await steps.put(id, { every_s: 10, ...body });
    const at = new Date(Math.floor(Date.now() / 10_000) * 10_000 - 20_000);
    await steps.fireFrom(id, at);
    return steps.runs(id);
  };

  describe('whose run has not ended at the next time', () => {
    test('makes none, and says which run is in the way', async () => {
      const made = await fireTwice('skipping', { overlap: 'skip' });
      assert.equal(made.length, 1);
      const [last] = await steps.fires('skipping');
      assert.deepEqual(
        [last.outcome, last.run_id, last.reason],
        ['skipped_overlap', null, `run ${made[0].id} has not ended`],
      );
    });

    test('makes one for each time if it allows that', async () => {
      assert.ok((await fireTwice('allowing', { overlap: 'allow' })).length >= 3);
    });

    test('makes one that waits for the end of the first, and no third', async () => {
      const [held, first, ...others] = await fireTwice('queueing', { overlap: 'queue_one' });
      assert.deepEqual(others, []);
      const listed = (await service.send('GET', '/runs?schedule=queueing&state=PENDING')).body.data;
      assert.deepEqual(
        listed.map(({ id, reason }: Json) => [id === held.id, reason]),
        [
          [true, 'concurrency'],
          [false, 'no_worker'],
        ],
      );
      const explained = (await service.send('GET', `/runs/${held.id}/explain`)).body;
      assert.deepEqual([explained.reason, explained.queue.not_before], ['concurrency', null]);
      assert.match(explained.summary, /^Waits until the run of schedule 'queueing' before it has ended/);
      await steps.job.followEnds();
      assert.equal((await service.send('GET', `/runs/${held.id}/explain`)).body.reason, 'concurrency');
      await service.send('PUT', '/pauses/p', { body: { where: { schedule: ['queueing'] }, reason: 'why' } });
      const paused = (await service.send('GET', `/runs/${held.id}/explain`)).body;
      assert.deepEqual([paused.reason, paused.paused_by.length], ['paused', 1]);
      assert.match(paused.summary, /before it has ended .*; the pause 'p' holds it: why\./);
      const pending = (await service.send('GET', '/runs?schedule=queueing&state=PENDING')).body.data;
      assert.deepEqual(
        pending.map(({ reason }: Json) => reason),
        ['paused', 'paused'],
      );
      await until(
        async () => (await service.send('GET', '/capacity')).body.demand.reasons,
        (reasons) => reasons.paused === 2 && reasons.concurrency === 0,
      );
      await service.send('DELETE', '/pauses/p');
      await finish(first, 'COMPLETED');
      await steps.job.followEnds();
      const free = (await service.send('GET', `/runs/${held.id}/explain`)).body;
      assert.deepEqual([free.reason, free.queue.position === null], ['no_worker', false]);
    });

    test('cancels it and makes the next', async () => {
      const [newest, ...others] = await fireTwice('cancelling', { overlap: 'cancel_previous' });
      assert.deepEqual([newest.state, others], ['PENDING', []]);
      await steps.fireFrom('cancelling', new Date(Math.floor(Date.now() / 10_000) * 10_000));
      const [second, first] = await steps.runs('cancelling');
      assert.deepEqual([second.state, first.state], ['PENDING', 'CANCELLED']);
      assert.match(first.execution_summary.cancel_reason, /schedule 'cancelling'/);
    });
  });

  describe('after three days without the service', () => {
    // Half an hour after the last time: none is on time.
    const cron = [`${(new Date().getUTCMinutes() + 30) % 60} * * * *`];
    const policies = {
      latest: { made: 1, window: {} },
      none: { made: 0, window: {} },
      all: { made: 72, window: { window_s: 4 * 86_400 } },
    };
    for (const [policy, { made, window }] of Object.entries(policies)) {
      test(`makes ${made} runs by the policy ${policy}, and accounts for each other time`, async () => {
        const id = `down-${policy}`;
        const { next } = await steps.put(id, { cron, overlap: 'allow', catch_up: { policy, ...window } });
        const first = new Date(new Date(next[0]).getTime() - 72 * HOUR);
        await steps.fireFrom(id, first);
        const fires = (await steps.fires(id)).toReversed();
        const created = fires.filter(({ outcome }) => outcome === 'created');
        assert.equal(created.length, made);
        assert.equal((await steps.runs(id)).length, made);
        const accounted = fires.reduce((sum, { count }) => sum + count, 0);
        assert.equal(accounted, 72);
        const missed = fires.filter(({ outcome }) => outcome === 'skipped_missed');
        assert.deepEqual(
          missed.map(({ from, count }) => [from, count]),
          made === 72 ? [] : [[first.toISOString(), 72 - made]],
        );
        const shown = await steps.get(id);
        assert.deepEqual([shown.counts.created, shown.counts.skipped_missed], [made, 72 - made]);
        assert.equal(shown.next[0], next[0]);
      });
    }

    test('makes up for a hundred times at most, the newest', async () => {
      await steps.put('many', { every_s: 60, overlap: 'allow', catch_up: { policy: 'all' } });
      await steps.fireFrom('many', steps.lastHour(20));
      const fires = await steps.fires('many');
      assert.equal(fires.filter(({ outcome }) => outcome === 'created').length, 100);
      const [missed] = fires.filter(({ outcome }) => outcome === 'skipped_missed');
      assert.ok(missed.count >= 1100, String(missed.count));
      assert.equal(new Date(missed.until).getTime() + MINUTE, new Date(fires.at(-2).nominal_at).getTime());
    });
  });

  test('lists a time for which no run can be made with the reason, and is paused after ten in a row', async () => {
    await service.send('POST', '/definitions', { body: { id: 'gone', version: '1', image: 'i' } });
    await steps.put('failing', {
      every_s: 60,
      overlap: 'allow',
      run: { definition: 'gone' },
      catch_up: { policy: 'all' },
    });
    await service.send('DELETE', '/definitions/gone?all=true');
    await steps.fireFrom('failing', new Date(Math.floor(Date.now() / MINUTE) * MINUTE - 4 * MINUTE));
    const [fire] = await steps.fires('failing');
    assert.deepEqual([fire.outcome, fire.reason], ['failed', "OpDefinition 'gone' not found"]);
    assert.equal((await steps.get('failing')).paused, false);
    await steps.fireFrom('failing', new Date(Math.floor(Date.now() / MINUTE) * MINUTE - 30 * MINUTE));
    const shown = await steps.get('failing');
    assert.deepEqual(
      [shown.paused, shown.paused_note, shown.next, shown.paused_by],
      [true, 'No run could be made 10 times in a row', [], null],
    );
    const [entry] = (await service.send('GET', '/audit?limit=1')).body;
    assert.deepEqual(
      [entry.action, entry.subject, entry.key_name],
      ['schedule.pause', 'failing', 'longshore'],
    );
  });

  test('is paused when as many runs in a row as it says have FAILED, and counts anew after it is resumed', async () => {
    await steps.put('flaky', {
      overlap: 'allow',
      pause_after_failures: 2,
      run: { image: 'i', retry_policy: { max_attempts: 1 } },
    });
    const trigger = async (type: 'COMPLETED' | 'FAILED'): Promise<void> => {
      const { body } = await service.send('POST', '/schedules/flaky/trigger');
      await finish({ id: body.run_id }, type);
      await steps.job.followEnds();
    };
    await trigger('FAILED');
    await trigger('COMPLETED');
    await trigger('FAILED');
    assert.equal((await steps.get('flaky')).paused, false);
    await trigger('FAILED');
    assert.equal((await steps.get('flaky')).paused_note, 'The last 2 runs have FAILED');
    await service.send('POST', '/schedules/flaky/resume');
    await trigger('FAILED');
    assert.equal((await steps.get('flaky')).paused, false);
  });

  test('fires on request also while it is paused, and backfills each time of the past once', async () => {
    await steps.put('asked', { paused: true });
    const first = await service.send('POST', '/schedules/asked/trigger');
    assert.deepEqual([first.status, first.body.outcome, first.body.kind], [201, 'created', 'trigger']);
    const second = await service.send('POST', '/schedules/asked/trigger');
    assert.deepEqual([second.status, second.body.outcome], [201, 'skipped_overlap']);
    const run = await runs.get(first.body.run_id);
    assert.deepEqual([run.source, run.created_by.key_name.split(':')[0]], ['schedule', 'settings']);
    const range = { from: steps.lastHour(150).toISOString(), until: steps.lastHour(1).toISOString() };
    const backfill = (): Promise<{ body: unknown }> =>
      service.send('POST', '/schedules/asked/backfill', { body: range });
    assert.deepEqual((await backfill()).body, { times: 150, created: 150, existing: 0, failed: 0 });
    assert.deepEqual((await backfill()).body, { times: 150, created: 0, existing: 150, failed: 0 });
    assert.equal((await steps.get('asked')).counts.created, 151);
    const tooMany = await service.send('POST', '/schedules/asked/backfill', {
      body: { from: steps.lastHour(2000).toISOString(), until: range.until },
    });
    assert.equal(tooMany.status, 400);
    const future = await service.send('POST', '/schedules/asked/backfill', {
      body: { from: range.from, until: new Date(Date.now() + HOUR).toISOString() },
    });
    assert.equal(future.status, 400);
  });

  test('fires nothing early in a process whose clock is an hour ahead', async () => {
    await steps.put('ahead');
    const real = Date.now;
    Date.now = () => real() + HOUR;
    try {
      await steps.job.runOnce();
    } finally {
      Date.now = real;
    }
    assert.deepEqual(await outcomes('ahead'), []);
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
