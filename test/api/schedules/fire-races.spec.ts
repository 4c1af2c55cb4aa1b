import assert from 'node:assert/strict';
import { beforeAll, describe, test, vi } from 'vitest';
import { ScheduleRepository } from '../../../src/schedules/schedule.repository.js';
import { until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const MINUTE = 60_000;

describe('a schedule', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const runs = new RunSteps(service.send);
  beforeAll(() => steps.stopJobs());

  /** Does something after a reading of a job or request, before it goes on with what it has read. */
  const after = (reading: 'listOpen' | 'listFailing', action: () => Promise<unknown>): void => {
    const schedules = service.app.get(ScheduleRepository, { strict: false });
    const original = schedules[reading].bind(schedules);
    vi.spyOn(schedules, reading).mockImplementationOnce(async (ids: readonly string[]): Promise<any> => {
      const found = await original(ids);
      await action();
      return found;
    });
  };
  const post = async (path: string, body?: object): Promise<any> => {
    const answer = await service.send('POST', `/schedules/${path}`, body && { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.body;
  };
  const backfill = (id: string, times: number): Promise<any> =>
    post(`${id}/backfill`, {
      from: steps.lastHour(times).toISOString(),
      until: steps.lastHour(1).toISOString(),
    });
  const open = async (id: string): Promise<any[]> => {
    const { body } = await service.send('GET', `/runs?schedule=${id}&state=PENDING&limit=100`);
    return body.data;
  };
  const waiting = async (id: string): Promise<number> =>
    (await open(id)).filter(({ reason }) => reason === 'concurrency').length;
  /** A run that waits for the end of another one. */
  const queue = async (id: string, run: object = {}): Promise<{ first: string; held: string }> => {
    await steps.put(id, { overlap: 'queue_one', run: { image: 'i', ...run } });
    const first = (await post(`${id}/trigger`)).run_id;
    return { first, held: (await post(`${id}/trigger`)).run_id };
  };
  const fail = async (id: string): Promise<void> => {
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
    await runs.event(id, 'FAILED', { error_message: 'x' });
  };
  /** A schedule which the next failure pauses, and the failed run. */
  const failOnce = async (id: string): Promise<void> => {
    await steps.put(id, {
      overlap: 'allow',
      pause_after_failures: 1,
      run: { image: 'i', retry_policy: { max_attempts: 1 } },
    });
    await fail((await post(`${id}/trigger`)).run_id);
  };

  test('is triggered by each of a hundred requests at once', async () => {
    await steps.put('stormed', { overlap: 'allow' });
    const fires = await Promise.all(Array.from({ length: 100 }, () => post('stormed/trigger')));
    assert.equal(new Set(fires.map(({ run_id: run }) => run)).size, 100);
    assert.equal((await steps.get('stormed')).counts.created, 100);
  });

  test('is fired for its time at once when a request has changed it while it was fired', async () => {
    await steps.put('nudged', { overlap: 'allow' });
    after('listOpen', () => post('nudged/trigger'));
    await steps.fireFrom('nudged', steps.lastHour());
    await steps.job.runOnce();
    assert.deepEqual(
      (await steps.fires('nudged')).map(({ kind, outcome }) => [kind, outcome]),
      [
        ['schedule', 'created'],
        ['trigger', 'created'],
      ],
    );
  });

  test('has no run of one of the same id that was removed while it was fired', async () => {
    await steps.put('again', { overlap: 'allow', run: { image: 'old' } });
    after('listOpen', async () => {
      await service.send('DELETE', '/schedules/again');
      await steps.put('again', { overlap: 'allow', run: { image: 'new' } });
    });
    await steps.fireFrom('again', steps.lastHour());
    assert.deepEqual(await steps.fires('again'), []);
    assert.deepEqual(await steps.runs('again'), []);
  });

  test('has one run for its time when the connection breaks while it is fired', async () => {
    for (const id of ['broken-a', 'broken-b']) await steps.put(id, { overlap: 'allow' });
    await service.dataSource.query(
      `update schedules set next_at = $1::timestamptz, due_at = now() where id like 'broken-%'`,
      [steps.lastHour().toISOString()],
    );
    const { dataSource } = service.database;
    const holder = dataSource.createQueryRunner();
    const breakWaiting = async (): Promise<void> => {
      await until(
        () =>
          dataSource.query<object[]>(
            `select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and wait_event_type = 'Lock'`,
          ),
        ({ length }) => length > 0,
      );
      await holder.rollbackTransaction();
      await holder.release();
    };
    let breaking: Promise<void> | undefined;
    after('listOpen', async () => {
      await holder.startTransaction();
      await holder.query(`select from schedules where id = 'broken-a' for update`);
      breaking = breakWaiting();
    });
    await steps.job.runOnce().catch(() => undefined);
    await breaking;
    await service.dataSource.query(
      `update schedules set due_at = now() where id like 'broken-%' and next_at <= now()`,
    );
    await until(
      () => steps.job.runOnce().then(Boolean, () => false),
      (hasSucceeded) => !hasSucceeded,
    );
    const told = service.logged.filter(({ msg }) => String(msg).includes('could not be fired'));
    assert.deepEqual(told, []);
    for (const id of ['broken-a', 'broken-b']) {
      assert.deepEqual(
        (await steps.fires(id)).map(({ outcome }) => outcome),
        ['created'],
      );
      assert.equal((await steps.runs(id)).length, 1);
    }
  });

  test('does not try to start runs that wait for a run which is none of its own', async () => {
    const { id: parent } = await runs.create();
    const { first } = await queue('depending', { depends_on: [{ run: parent }] });
    const schedules = service.app.get(ScheduleRepository, { strict: false });
    assert.ok(!(await schedules.listReleasable(100)).includes(first));
    await service.send('POST', `/runs/${parent}/cancel`);
  });

  test('has one run that waits, however many a backfill has made', async () => {
    await steps.put('backfilled', { overlap: 'queue_one' });
    await backfill('backfilled', 120);
    await post('backfilled/trigger');
    assert.equal(await waiting('backfilled'), 1);
    assert.equal((await post('backfilled/trigger')).outcome, 'skipped_overlap');
    assert.equal(await waiting('backfilled'), 1);
  });

  test('replaces all runs that a backfill has made', async () => {
    await steps.put('replacing', { overlap: 'cancel_previous' });
    await backfill('replacing', 120);
    const { run_id: run } = await post('replacing/trigger');
    assert.deepEqual(
      (await open('replacing')).map(({ id }) => id),
      [run],
    );
  });

  test('is not paused because a backfill could make no runs', async () => {
    await service.send('POST', '/definitions', { body: { id: 'lost', version: '1', image: 'i' } });
    await steps.put('unlucky', { overlap: 'allow', run: { definition: 'lost' } });
    await service.send('DELETE', '/definitions/lost?all=true');
    assert.equal((await backfill('unlucky', 20)).failed, 20);
    await steps.fireFrom('unlucky', steps.lastHour());
    const { paused, counts } = await steps.get('unlucky');
    assert.deepEqual([paused, counts.failed], [false, 21]);
  });

  test('is not paused for failures when it is resumed meanwhile, and may be removed', async () => {
    await failOnce('resumed');
    after('listFailing', async () => {
      await post('resumed/pause', {});
      await post('resumed/resume');
    });
    await steps.job.followEnds();
    assert.equal((await steps.get('resumed')).paused, false);
    await failOnce('removed');
    after('listFailing', () => service.send('DELETE', '/schedules/removed'));
    await steps.job.followEnds();
  });

  test('that is paused for failures when times are due accounts for each of them', async () => {
    await failOnce('late');
    await steps.put('late', { cron: ['* * * * *'], overlap: 'allow', pause_after_failures: 1 }, 200);
    await steps.fireFrom('late', thisMinute(4));
    const [missed, ...others] = await steps.fires('late');
    assert.equal(others.length, 1);
    assert.deepEqual([missed.outcome, missed.reason], ['skipped_missed', 'The last 1 runs have FAILED']);
    assert.equal(missed.from, thisMinute(4).toISOString());
    assert.ok(missed.count >= 5, String(missed.count));
    const { paused, paused_note: note, next } = await steps.get('late');
    assert.deepEqual([paused, note, next], [true, 'The last 1 runs have FAILED', []]);
  });

  describe('whose run waits for the one before', () => {
    test('queues another one when it is cancelled', async () => {
      const { held } = await queue('cancelled');
      await runs.event(held, 'CANCELLED', {});
      const { outcome, run_id: next } = await post('cancelled/trigger');
      assert.equal(outcome, 'created');
      await steps.job.followEnds();
      assert.deepEqual(
        (await open('cancelled')).map(({ id, reason }) => [id === next, reason]),
        [
          [true, 'concurrency'],
          [false, 'no_worker'],
        ],
      );
    });

    test('has both in the way of the next one when an admin starts it', async () => {
      for (const state of ['PENDING', 'ASSIGNED', 'RUNNING', 'FAILED', 'COMPLETED', 'CANCELLED']) {
        const { held } = await queue(`patched-${state}`);
        const { status, body } = await service.send('PATCH', `/runs/${held}`, { body: { state } });
        assert.deepEqual([status, body.state], [200, state]);
        const { run_id: next } = await post(`patched-${state}/trigger`);
        await steps.job.followEnds();
        assert.equal((await service.send('GET', `/runs/${next}/explain`)).body.reason, 'concurrency', state);
      }
    });

    test('begins to count its time to start when that one has ended', async () => {
      const { first, held } = await queue('limited', { timeouts: { start_within_s: 1800 } });
      const deadlines = (): Promise<unknown> =>
        service.dataSource.query(
          `select due_at > now() + interval '20 minutes' as "isFresh" from run_timers where run_id = $1::uuid`,
          [held],
        );
      await service.dataSource.query(
        `update runs set queued_at = queued_at - interval '1 hour' where id = $1::uuid`,
        [held],
      );
      assert.deepEqual(await deadlines(), []);
      await runs.event(first, 'CANCELLED', {});
      await steps.job.followEnds();
      assert.deepEqual(await deadlines(), [{ isFresh: true }]);
    });

    test('waits also while that one is retried', async () => {
      const { first, held } = await queue('retried', { retry_policy: { max_attempts: 1 } });
      await fail(first);
      await runs.event(first, 'RETRIED', { force: true });
      await steps.job.followEnds();
      assert.equal((await service.send('GET', `/runs/${held}/explain`)).body.reason, 'concurrency');
      await runs.event(first, 'CANCELLED', {});
      await steps.job.followEnds();
      assert.equal((await service.send('GET', `/runs/${held}/explain`)).body.reason, 'no_worker');
    });
  });
});

/** The beginning of the minute, or of one before. */
function thisMinute(minutesAgo = 0): Date {
  return new Date(Math.floor(Date.now() / MINUTE) * MINUTE - minutesAgo * MINUTE);
}
