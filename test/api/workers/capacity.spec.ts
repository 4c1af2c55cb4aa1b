import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test, vi } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { CapacityService } from '../../../src/claims/capacity/capacity.service.js';
import { DemandReader } from '../../../src/claims/capacity/demand.reader.js';
import { noneByReason } from '../../../src/runs/pending-reason.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const NONE = { runs: 0, cpu: 0, cpu_millis: 0, ram_mb: 0, vram_mb: 0, gpus: 0 };
const LARGE = { cpu: 2, ram_mb: 4000, vram_mb: 0 };
const SMALL = { cpu: 1, ram_mb: 500, vram_mb: 0 };
const ON_GPU = { cpu: 1, ram_mb: 100, vram_mb: 6000 };
const HUGE = { cpu: 500, ram_mb: 0, vram_mb: 0 };

const RESOURCES = {
  cpu_cores: 8,
  ram_mb: 16_000,
  gpus: [
    { id: 0, vram_mb: 8000, tags: [] },
    { id: 1, vram_mb: 8000, tags: [] },
  ],
};

async function capacityOf({ send }: Pick<TestApp, 'send'>, query = ''): Promise<any> {
  return bodyOf(await send('GET', `/capacity${query}`, { key: KEYS.client }), 'CapacityReport');
}

const cpus = (cpu: number): object => ({ cpu, cpu_millis: 1000 * cpu });

/** A run that asks for cores alone. */
function cores(cpu: number): { constraints: typeof LARGE } {
  return { constraints: { cpu, ram_mb: 0, vram_mb: 0 } };
}

/** The numbers of a shape. */
function shapeIn({ demand }: any, { cpu, ram_mb: ramMb, vram_mb: vramMb }: typeof LARGE): any {
  return demand.shapes.find(
    (shape: any) => shape.cpu === cpu && shape.ram_mb === ramMb && shape.vram_mb === vramMb,
  );
}

describe('GET /capacity/wanted', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit' } });
  const steps = new RunSteps(service.send);
  const wanted = async (query: string): Promise<any> =>
    bodyOf(await service.send('GET', `/capacity/wanted?${query}`, { key: KEYS.client }), 'WantedWorkers')
      .wanted;

  test('counts runs that may be claimed now and those in execution, and no others', async () => {
    const body = { ...cores(2), selector: ['pool'] };
    const concurrency = { key: 'k', limit: 1 };
    for (let n = 0; n < 3; n += 1) await steps.create(body);
    for (let n = 0; n < 3; n += 1) await steps.create({ ...body, concurrency });
    const { id: parent } = await steps.create({ ...body, start_at: '1h' });
    await steps.create({ ...body, depends_on: [{ run: parent }] });
    await steps.create(cores(2));
    assert.equal(await wanted('selector=pool&cpu=2'), 5);
    assert.equal(await wanted('selector=pool&cpu=4'), 3);
    assert.equal(await wanted('cpu=2'), 1);
    assert.equal(await wanted('selector=pool&cpu=2&max=3'), 3);
    assert.equal(await wanted('selector=none&cpu=2&min=2'), 2);
    const resources = { cpu_cores: 2, ram_mb: 100, gpus: [] };
    await steps.heartbeat('p', { tags: ['pool'], resources });
    assert.equal((await steps.claim('p')).length, 1);
    assert.equal(await wanted('selector=pool&cpu=2'), 5);
  });

  test('refuses bounds and tags that cannot be', async () => {
    for (const [query, problem] of [
      ['min=2&max=1', 'min must be at most max'],
      ['selector=a,,b', 'selector must be 1 to 20 tags, separated by commas'],
      ['cpu=0', 'cpu must be an integer from 1 to 2147483647'],
    ]) {
      const { status, body } = await service.send('GET', `/capacity/wanted?${query}`);
      assert.deepEqual([status, body.errors], [400, [problem]]);
    }
  });
});

for (const pool of ['memory', 'shared']) {
  describe(`GET /capacity, with the pool of workers in ${pool}`, () => {
    const service = useTestApp({ env: { SERVICE_WORKER_POOL: pool, SERVICE_SCHEDULER: 'fit' } });
    const steps = new RunSteps(service.send);

    test('shows nothing where there is nothing', async () => {
      const { at, ...rest } = await capacityOf(service);
      assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
      const empty = { total: 0, free: 0 };
      assert.deepEqual(rest, {
        strategy: 'fit',
        demand: {
          at_least: false,
          pending: NONE,
          ready: NONE,
          waiting: NONE,
          in_execution: NONE,
          held_back: 0,
          reasons: noneByReason(),
          oldest_pending_at: null,
          shapes: [],
          other: null,
          selectors: [],
          other_selectors: null,
        },
        supply: {
          workers: { active: 0, idle: 0, reserved: 0, draining: 0, not_claiming: 0, away: 0, stale: 0 },
          cpu: empty,
          cpu_millis: empty,
          ram_mb: empty,
          vram_mb: empty,
          gpus: empty,
          sizes: [],
          other: null,
          engines: [],
        },
      });
    });

    test('shows what is asked for while there is no worker', async () => {
      const first = await steps.create({ constraints: LARGE });
      await steps.create({ constraints: LARGE, retry_policy: { max_attempts: 2, backoff_s: 3600 } });
      await steps.create({ constraints: ON_GPU });
      await steps.create({ constraints: HUGE });
      const body = await capacityOf(service);
      assert.deepEqual(body.demand.pending, { runs: 4, ...cpus(505), ram_mb: 8100, vram_mb: 6000, gpus: 1 });
      assert.deepEqual(body.demand.ready, body.demand.pending);
      assert.equal(body.demand.oldest_pending_at, first.createdAt);
      assert.deepEqual(body.demand.shapes[0], {
        ...LARGE,
        cpu_millis: 2000,
        gpus: 0,
        pending: 2,
        ready: 2,
        waiting: 0,
        in_execution: 0,
        placeable: null,
        can_start_now: null,
      });
    });

    test('shows what workers have, what is free, and what finds a place there', async () => {
      for (const id of ['w-1', 'w-2', 'w-3']) await steps.heartbeat(id, { resources: RESOURCES });
      await service.send('POST', '/workers/w-3/drain');
      const idle = await capacityOf(service);
      assert.deepEqual(idle.supply, {
        workers: { active: 2, idle: 2, reserved: 0, draining: 1, not_claiming: 0, away: 0, stale: 0 },
        cpu: { total: 16, free: 16 },
        cpu_millis: { total: 16_000, free: 16_000 },
        ram_mb: { total: 32_000, free: 32_000 },
        vram_mb: { total: 32_000, free: 32_000 },
        gpus: { total: 4, free: 4 },
        sizes: [{ cpu_cores: 8, ram_mb: 16_000, gpus: [8000, 8000], workers: 2, idle: 2 }],
        other: null,
        engines: [],
      });
      assert.deepEqual([shapeIn(idle, HUGE).placeable, shapeIn(idle, HUGE).can_start_now], [false, 0]);
      assert.deepEqual([shapeIn(idle, LARGE).placeable, shapeIn(idle, LARGE).can_start_now], [true, 2]);
      const claimed = await steps.claim('w-1');
      assert.equal(claimed.length, 3);
      const body = await capacityOf(service);
      assert.deepEqual(body.demand.ready, { runs: 1, ...cpus(500), ram_mb: 0, vram_mb: 0, gpus: 0 });
      assert.deepEqual(body.demand.in_execution, {
        runs: 3,
        ...cpus(5),
        ram_mb: 8100,
        vram_mb: 6000,
        gpus: 1,
      });
      assert.equal(shapeIn(body, LARGE).in_execution, 2);
      assert.deepEqual(body.supply.workers, {
        active: 2,
        idle: 1,
        reserved: 0,
        draining: 1,
        not_claiming: 0,
        away: 0,
        stale: 0,
      });
      assert.deepEqual(body.supply.cpu, { total: 16, free: 11 });
      assert.deepEqual(body.supply.gpus, { total: 4, free: 3 });
      assert.deepEqual(body.supply.vram_mb, { total: 32_000, free: 26_000 });
    });

    test('tells runs in back-off apart from those that are ready', async () => {
      const held = (await service.send('GET', '/runs?state=ASSIGNED')).body.data;
      const retried = held.find((run: any) => run.retry_policy.max_attempts === 2);
      await steps.event(retried.id, 'FAILED');
      const body = await capacityOf(service);
      assert.deepEqual(shapeIn(body, LARGE), {
        ...LARGE,
        cpu_millis: 2000,
        gpus: 0,
        pending: 1,
        ready: 0,
        waiting: 1,
        in_execution: 1,
        placeable: true,
        can_start_now: 0,
      });
      assert.deepEqual(body.demand.waiting, { runs: 1, ...cpus(2), ram_mb: 4000, vram_mb: 0, gpus: 0 });
      assert.equal(body.demand.pending.runs, 2);
    });

    test('tells the largest shapes and sizes one by one, and the others together', async () => {
      await steps.create({ constraints: SMALL });
      await steps.create({ constraints: SMALL });
      await steps.heartbeat('w-4', { resources: { ...RESOURCES, cpu_cores: 2 } });
      const { demand, supply } = await capacityOf(service, '?limit=1');
      assert.deepEqual(
        demand.shapes.map(({ cpu, pending }: any) => [cpu, pending]),
        [[1, 2]],
      );
      assert.deepEqual(demand.other, { pending: 2, ready: 1, waiting: 1, in_execution: 2 });
      assert.deepEqual(supply.other, { sizes: 1, workers: 1, idle: 1 });
      assert.equal(supply.sizes.length, 1);
    });

    test('refuses limits out of range and parameters that it does not know', async () => {
      for (const query of ['limit=0', 'limit=501', 'limit=1.5', 'limit=', 'shape=1']) {
        assert.equal((await service.send('GET', `/capacity?${query}`)).status, 400, query);
      }
      assert.equal((await service.send('GET', '/capacity', { key: KEYS.worker })).status, 403);
    });
  });
}

test('GET /capacity counts the first 100,000 pending runs and says that there may be more, and lists up to 500 shapes', async () => {
  const service = await startTestApp();
  const fill = (runs: number, priority: number, cpuMillis: string): Promise<number> =>
    execute(
      service.dataSource,
      `insert into queue (run_id, priority, created_at, cpu_millis, ram_mb, vram_mb)
       select gen_random_uuid(), ${priority}, now(), ${cpuMillis}, 0, 0 from generate_series(1, ${runs}) as n`,
    );
  try {
    await fill(99_999, 0, '1000 * (1 + n % 600)');
    const { demand: below } = await capacityOf(service, '?limit=500');
    assert.deepEqual([below.at_least, below.pending.runs, below.shapes.length], [false, 99_999, 500]);
    assert.equal(
      below.other.pending,
      99_999 - below.shapes.reduce((sum: number, one: any) => sum + one.pending, 0),
    );
    await fill(400, 1, '1000000');
    const { demand: beyond } = await capacityOf(service, '?limit=1');
    assert.deepEqual([beyond.at_least, beyond.pending.runs], [true, 100_000]);
    assert.deepEqual([beyond.shapes[0].cpu, beyond.shapes[0].ready], [1000, 400], 'claims take them first');
    assert.equal(beyond.other.ready, 99_600);
  } finally {
    await service.close();
  }
});

test('requests of GET /capacity that arrive during a reading share the next one, each with its limit', async () => {
  const service = await startTestApp();
  const steps = new RunSteps(service.send);
  const asked = vi.spyOn(service.app.get(CapacityService), 'get');
  const reader = service.app.get(DemandReader);
  const read = vi.spyOn(reader, 'read');
  const gate = new AbortController();
  try {
    read.mockImplementationOnce(async (limit) => {
      await once(gate.signal, 'abort');
      return reader.read(limit);
    });
    const first = capacityOf(service);
    await vi.waitFor(() => assert.equal(read.mock.calls.length, 1));
    for (const cpu of [1, 2, 3]) await steps.create(cores(cpu));
    const limits = [1, 2, 3, 3, 2, 1];
    const later = limits.map((limit) => capacityOf(service, `?limit=${limit}`));
    await vi.waitFor(() => assert.equal(asked.mock.calls.length, 1 + limits.length));
    gate.abort();
    await first;
    const answers = await Promise.all(later);
    assert.deepEqual(
      answers.map(({ demand }) => [demand.shapes.length, demand.other?.ready ?? 0]),
      limits.map((limit) => [limit, 3 - limit]),
    );
    assert.equal(read.mock.calls.length, 3, 'the blocked call, the reading it makes, and one for all others');
  } finally {
    gate.abort();
    await service.close();
  }
});
