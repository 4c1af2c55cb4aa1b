import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const kubernetes = (pending: number, running: number): Record<string, unknown> => ({
  engine: { name: 'kubernetes', pending, running },
});

const has = (cpu: number): Record<string, unknown> => ({
  resources: { cpu_cores: cpu, ram_mb: 1000, gpus: [] },
});

const idsOf = (ops: readonly any[]): string[] => ops.map(({ id }) => id);

for (const pool of ['memory', 'shared']) {
  describe(`the engine of a launcher, with the pool of workers in ${pool}`, () => {
    const service = useTestApp({ env: { SERVICE_WORKER_POOL: pool, SERVICE_WORKER_TIMEOUT: '600' } });
    const steps = new RunSteps(service.send);

    const listed = async (id: string): Promise<any> =>
      bodyOf(await service.send('GET', '/workers'), 'Workers').find((worker: any) => worker.id === id);
    const capacity = async (query = ''): Promise<any> =>
      bodyOf(await service.send('GET', `/capacity${query}`), 'CapacityReport').supply.engines;

    test('is shown as in the newest heartbeat, and absent without one', async () => {
      assert.equal('engine' in (await steps.heartbeat('k-1')), false);
      const answered = await steps.heartbeat('k-1', kubernetes(3, 12));
      assert.deepEqual(answered.engine, { name: 'kubernetes', pending: 3, running: 12 });
      assert.deepEqual((await listed('k-1')).engine, answered.engine);
      await steps.heartbeat('k-1', { engine: { name: 'kubernetes', pending: 0, running: 13, more: true } });
      assert.deepEqual((await listed('k-1')).engine, { name: 'kubernetes', pending: 0, running: 13 });
      await steps.heartbeat('k-1', { engine: null });
      assert.equal('engine' in (await listed('k-1')), false);
    });

    test('counts in capacity, overview and metrics with those of the other active launchers', async () => {
      await steps.heartbeat('k-1', kubernetes(3, 12));
      await steps.heartbeat('k-2', kubernetes(1, 0));
      await service.send('POST', '/workers/k-2/drain');
      await steps.heartbeat('s-1', { engine: { name: 'slurm', pending: 0, running: 2 } });
      const engines = [
        { name: 'kubernetes', launchers: 2, pending: 4, running: 12 },
        { name: 'slurm', launchers: 1, pending: 0, running: 2 },
      ];
      assert.deepEqual(await capacity(), engines);
      assert.deepEqual(await capacity('?limit=1'), engines.slice(0, 1));
      assert.deepEqual((await service.send('GET', '/overview')).body.engines, engines);
      const scrape = await Scrape.of(service.send);
      for (const { name: engine, pending, running } of engines) {
        assert.equal(scrape.value('longshore_engine_jobs', { engine, state: 'pending' }), pending);
        assert.equal(scrape.value('longshore_engine_jobs', { engine, state: 'running' }), running);
      }
      await service.send('DELETE', '/workers/s-1');
      assert.deepEqual(await capacity(), engines.slice(0, 1));
    });
  });
}

describe('a launcher whose resources change', () => {
  const env = {
    SERVICE_SCHEDULER: 'fit',
    SERVICE_WORKER_POOL: 'shared',
    SERVICE_WORKER_TIMEOUT: '600',
    SERVICE_FIT_RESERVE_AFTER: '0',
  };
  const service = useTestApp({ env });
  const twin = useTestApp(() => ({ env, database: service.database }));
  const steps = new RunSteps(service.send);

  for (const [where, id, at] of [
    ['this process', 'here', () => service],
    ['another process', 'there', () => twin],
  ] as const) {
    test(`gets a run at once that a heartbeat to ${where} has made room for, though its claim waits`, async () => {
      const reports = new RunSteps(at().send);
      await reports.heartbeat(id, has(1));
      const run = await steps.create({ constraints: { cpu: 2 } });
      const claim = service.send('POST', `/workers/${id}/claim?wait=30`);
      await sleep(150);
      await reports.heartbeat(id, has(1));
      await reports.heartbeat(id, has(2));
      assert.deepEqual(idsOf(bodyOf(await beforeTimeOut(service, claim), 'ClaimedOps').ops), [run.id]);
      await service.send('POST', `/runs/${run.id}/cancel`);
    });
  }

  test('gets no more than it has now, and no run for what its runs use already', async () => {
    await steps.heartbeat('shrinks', has(8));
    const first = await steps.create({ constraints: { cpu: 4 } });
    assert.deepEqual(idsOf(await steps.claim('shrinks')), [first.id]);
    const second = await steps.create({ constraints: { cpu: 2 } });
    for (const cpu of [0, 3, 5]) {
      const { resources } = await steps.heartbeat('shrinks', has(cpu));
      assert.equal(resources.cpu_cores, cpu);
      assert.deepEqual(await steps.claim('shrinks'), []);
    }
    await steps.heartbeat('shrinks', has(6));
    assert.deepEqual(idsOf(await steps.claim('shrinks')), [second.id]);
    for (const { id } of [first, second]) await service.send('POST', `/runs/${id}/cancel`);
  });

  test('frees a run that was reserved for it when it has become too small, at its next claim', async () => {
    await steps.heartbeat('keeper', has(4));
    const small = await steps.create({ priority: 9, constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('keeper')), [small.id]);
    const big = await steps.create({ priority: 5, constraints: { cpu: 4 } });
    const behind = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('keeper')), [behind.id]);
    assert.deepEqual(await steps.claim('keeper'), []);
    const reservedFor = async (): Promise<unknown> =>
      bodyOf(await service.send('GET', `/runs/${big.id}/explain`), 'RunExplanation').queue.reserved_for;
    assert.equal(await reservedFor(), 'keeper');

    await steps.heartbeat('keeper', has(3));
    const next = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('keeper')), [next.id]);
    assert.notEqual(await reservedFor(), 'keeper');
    await steps.heartbeat('larger', has(4));
    assert.deepEqual(idsOf(await steps.claim('larger')), [big.id]);
  });
});
