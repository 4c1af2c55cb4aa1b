import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

describe('a trigger with an idempotency key', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  beforeAll(() => steps.stopJobs());

  const trigger = async (id: string, key: string, { send } = service) => {
    const answer = await send('POST', `/schedules/${id}/trigger`, { headers: { 'Idempotency-Key': key } });
    assert.equal(answer.status, 201, answer.text);
    return { fire: answer.body, isReplayed: answer.headers.get('idempotency-replayed') === 'true' };
  };

  test('fires once, and answers again with what became of it, also when it made no run', async () => {
    await steps.put('once');
    const first = await trigger('once', 'a');
    assert.deepEqual(await trigger('once', 'a'), { fire: first.fire, isReplayed: true });
    const skipped = await trigger('once', 'b');
    assert.deepEqual(
      [first.isReplayed, skipped.isReplayed, skipped.fire.outcome],
      [false, false, 'skipped_overlap'],
    );
    assert.deepEqual(await trigger('once', 'b'), { fire: skipped.fire, isReplayed: true });
    assert.equal((await steps.fires('once')).length, 2);
    await steps.put('another');
    assert.equal((await trigger('another', 'a')).isReplayed, false);
  });

  test('fires once when it is sent to two processes at once, again and again', async () => {
    const second = await startTestApp({ database: service.database });
    await steps.put('many', { overlap: 'allow' });
    for (let round = 0; round < 10; round += 1) {
      const key = `round-${round}`;
      const all = await Promise.all(
        [service, second, service, second].map((process) => trigger('many', key, process)),
      );
      assert.equal(new Set(all.map(({ fire }) => fire.run_id)).size, 1);
      assert.equal(all.filter(({ isReplayed }) => !isReplayed).length, 1);
    }
    assert.equal((await steps.runs('many')).length, 10);
    await second.close();
  });
});
