import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

const UNKNOWN = '01890000-0000-7000-8000-000000000000';

describe('a schedule whose runs wait for others', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  const groups = new GroupSteps(service);
  beforeAll(() => steps.stopJobs());

  const dependent = (run: string) => ({ run: { image: 'i', depends_on: [{ run }] } });

  test('lets the run that queue_one holds start when both the run before it and its own dependencies have ended', async () => {
    const parent = await groups.runs.create({ image: 'i' });
    const [first, held, ...others] = await steps.fireTwice('both', {
      ...dependent(parent.id),
      overlap: 'queue_one',
    });
    assert.deepEqual(others, []);
    await steps.fireFrom('both', new Date(Math.floor(Date.now() / 10_000) * 10_000));
    assert.equal((await steps.fires('both'))[0].reason, `run ${held.run_id} waits already`);
    await steps.job.followEnds();
    assert.deepEqual(
      [await groups.reason(first.run_id), await groups.reason(held.run_id)],
      ['dependency', 'dependency'],
    );
    await groups.end(parent.id);
    await groups.untilReady(first.run_id);
    await steps.job.followEnds();
    assert.equal(await groups.reason(held.run_id), 'dependency');
    await groups.end(first.run_id);
    await groups.untilReady(held.run_id);
  });

  test('keeps a run without dependencies held behind one that waits for others', async () => {
    const parent = await groups.runs.create({ image: 'i' });
    const overlap = 'queue_one';
    await steps.put('behind', { ...dependent(parent.id), overlap });
    const { body: first } = await service.send('POST', '/schedules/behind/trigger');
    await steps.put('behind', { run: { image: 'i' }, overlap }, 200);
    const { body: held } = await service.send('POST', '/schedules/behind/trigger');
    await steps.job.followEnds();
    assert.equal(await groups.reason(held.run_id), 'concurrency');
    await groups.end(parent.id);
    await groups.untilReady(first.run_id);
    await groups.end(first.run_id);
    await steps.job.followEnds();
    assert.equal(await groups.reason(held.run_id), 'no_worker');
  });

  test('is refused with an unknown run, and fails for a time when the run has gone, while other schedules go on', async () => {
    const answer = await service.send('PUT', '/schedules/gone', {
      body: { every_s: 60, ...dependent(UNKNOWN) },
    });
    assert.equal(answer.status, 400);
    assert.ok(answer.text.includes(`run: depends_on: there is no run '${UNKNOWN}'`), answer.text);
    const parent = await groups.runs.create({ image: 'i' });
    await steps.put('gone', dependent(parent.id));
    await execute(
      service.dataSource,
      `update schedules set run = replace(run::text, $1::text, $2::text)::json where id = 'gone'`,
      [parent.id, UNKNOWN],
    );
    await steps.put('other');
    await steps.setNext('other', steps.lastHour());
    await steps.fireFrom('gone', steps.lastHour());
    const [failed] = await steps.fires('gone');
    assert.equal(failed.outcome, 'failed');
    assert.ok(failed.reason.endsWith(`depends_on: there is no run '${UNKNOWN}'`), failed.reason);
    assert.equal((await steps.fires('other'))[0].outcome, 'created');
  });
});
