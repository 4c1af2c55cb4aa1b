import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('an explanation with stale workers', () => {
  const service = useTestApp({
    env: { SERVICE_WORKER_TIMEOUT: '0.75', SERVICE_REAPER_INTERVAL: '3600' },
  });
  const steps = new RunSteps(service.send);

  async function explain(id: string): Promise<any> {
    return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
  }

  test('counts them apart, and says of a run that one of them holds that it is stale', async () => {
    const held = await steps.assigned();
    const { id } = await steps.create();
    let explanation = await explain(id);
    while (explanation.counts.active > 0) explanation = await explain(id);
    assert.deepEqual(explanation.counts, {
      active: 0,
      draining: 0,
      not_claiming: 0,
      away: 0,
      stale: 1,
      able_now: 0,
      able_ever: 0,
    });
    assert.deepEqual(explanation.workers, []);
    assert.match(explanation.summary, /no worker is active/);
    const { holder, summary } = await explain(held.id);
    assert.equal(holder.is_active, false);
    assert.ok(holder.silent_ms >= 750);
    assert.match(summary, /^Assigned to worker 'w', which is stale: its last heartbeat was at .*Z\.$/);
  });

  test('says of a run of a launcher where it had submitted it', async () => {
    const held = await steps.assigned();
    await steps.event(held.id, 'SUBMITTED', { engine: 'slurm', engine_id: '42' });
    let { holder, summary } = await explain(held.id);
    while (holder.is_active) ({ holder, summary } = await explain(held.id));
    const stale =
      "Assigned to worker 'w', which is stale and had submitted it to slurm as 42: its last heartbeat";
    assert.ok(summary.startsWith(stale), summary);
  });
});
