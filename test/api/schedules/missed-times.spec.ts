import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

describe('a schedule with times that are due and that no process has fired', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const groups = new GroupSteps(service);
  beforeAll(() => steps.stopJobs());

  const missed = async (id: string): Promise<string> => {
    const [{ outcome, reason, from: first, until: last, count }, ...others] = await steps.fires(id);
    assert.deepEqual(others, []);
    assert.equal((await steps.get(id)).counts.skipped_missed, 3);
    assert.deepEqual(
      [outcome, first, last, count],
      ['skipped_missed', steps.lastHour(2).toISOString(), steps.lastHour().toISOString(), 3],
    );
    return reason;
  };
  const late = async (id: string): Promise<void> => {
    await steps.put(id, { jitter_s: 3600 });
    await steps.setNext(id, steps.lastHour(2));
  };

  test('lists them as missed when it is paused, also those that jitter delays', async () => {
    await late('stopped');
    const { status } = await service.send('POST', '/schedules/stopped/pause', { body: { note: 'why' } });
    assert.equal(status, 200);
    assert.equal(await missed('stopped'), 'were due when the schedule was paused');
    await service.send('POST', '/schedules/stopped/resume');
    await steps.job.runOnce();
    assert.equal((await steps.fires('stopped')).length, 1);
  });

  test('lists them as missed when it gets other times, or is replaced by a paused one', async () => {
    await late('moved');
    await steps.put('moved', { every_s: 7200 }, 200);
    assert.equal(await missed('moved'), 'were due when the schedule got other times');
    await late('replaced');
    await steps.put('replaced', { jitter_s: 3600, paused: true }, 200);
    assert.equal(await missed('replaced'), 'were due when the schedule was paused');
  });

  test('lists them as missed when its failures pause it', async () => {
    await steps.put('flawed', {
      overlap: 'allow',
      pause_after_failures: 1,
      run: { image: 'i', retry_policy: { max_attempts: 1 } },
    });
    const { body } = await service.send('POST', '/schedules/flawed/trigger');
    await steps.setNext('flawed', steps.lastHour(2));
    await groups.end(body.run_id, 'FAILED');
    await steps.job.followEnds();
    const [{ outcome, count, reason }] = await steps.fires('flawed');
    assert.deepEqual([outcome, count, reason], ['skipped_missed', 3, 'The last 1 runs have FAILED']);
  });

  test('keeps them due when it is replaced with the same times', async () => {
    await late('kept');
    await steps.put('kept', { jitter_s: 3600, description: 'x' }, 200);
    assert.deepEqual(await steps.fires('kept'), []);
  });
});
