import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const EIGHT_CORES = {
  resources: { cpu_cores: 8, ram_mb: 1000, gpus: [] },
  capabilities: ['cpu_millis'],
};
const HALF = { cpu_millis: 500 };

describe('by the strategy fit, shares of CPUs', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);

  test('add up exactly: sixteen runs of half a core use eight cores, which reports say', async () => {
    await steps.heartbeat('w', EIGHT_CORES);
    for (let n = 0; n < 17; n += 1) await steps.create({ constraints: HALF });
    const before = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    const [shape] = before.demand.shapes;
    assert.deepEqual([shape.cpu, shape.cpu_millis, shape.can_start_now], [1, 500, 16]);
    assert.deepEqual([before.demand.ready.cpu, before.demand.ready.cpu_millis], [9, 8500]);

    const ops = await steps.claim('w');
    assert.equal(ops.length, 16);
    assert.deepEqual(await steps.claim('w'), []);
    await steps.event(ops[0].id, 'COMPLETED');

    const { demand, supply } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    assert.deepEqual(supply.cpu_millis, { total: 8000, free: 500 });
    assert.deepEqual(supply.cpu, { total: 8, free: 0 }, 'a core that is used in part is not free');
    assert.deepEqual([demand.in_execution.cpu, demand.in_execution.cpu_millis], [8, 7500]);
    const { capacity } = (await service.send('GET', '/overview')).body;
    assert.deepEqual(capacity.cpu_millis, { total: 8000, used: 7500 });
    assert.deepEqual(capacity.cpu, { total: 8, used: 8 });
    const [worker] = bodyOf(await service.send('GET', '/workers'), 'Workers');
    assert.deepEqual([worker.free.cpu_cores, worker.free.cpu_millis], [0, 500]);

    const { id } = await steps.create({ constraints: { cpu_millis: 501 }, priority: 1 });
    const { workers } = bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    assert.deepEqual(workers[0].obstacles, [{ resource: 'cpu', needed: 0.501, free: 0.5, total: 8 }]);
    assert.equal((await steps.claim('w')).length, 1, 'the next run of half a core');
  });
});
