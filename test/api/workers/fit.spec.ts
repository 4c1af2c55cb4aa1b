import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** What a worker has. */
const has = (cpu: number, ramMb: number, ...gpus: readonly number[]): Record<string, unknown> => ({
  resources: {
    cpu_cores: cpu,
    ram_mb: ramMb,
    gpus: gpus.map((vramMb, id) => ({ id, vram_mb: vramMb, tags: [] })),
  },
});

const idsOf = (ops: readonly { id: string }[]): string[] => ops.map(({ id }) => id);

describe('claims by the strategy fit', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);

  async function cancelAll(): Promise<void> {
    for (const state of ['PENDING', 'ASSIGNED']) {
      const { data } = (await service.send('GET', `/runs?limit=100&state=${state}`)).body;
      for (const { id } of data) await service.send('POST', `/runs/${id}/cancel`);
    }
  }

  test('bring as many runs as fit, by priority, and the rest as soon as there is room', async () => {
    await steps.heartbeat('many', has(4, 100));
    const low = await steps.create({ constraints: { cpu: 2 } });
    const large = await steps.create({ priority: 1, constraints: { cpu: 3 } });
    const high = await steps.create({ priority: 2, constraints: { cpu: 2, ram_mb: 100 } });
    const nothing = await steps.create({ priority: -1 });
    assert.deepEqual(idsOf(await steps.claim('many')), [high.id, low.id, nothing.id]);
    assert.deepEqual(await steps.claim('many'), []);
    await steps.event(low.id, 'COMPLETED');
    assert.deepEqual(await steps.claim('many'), []);
    await steps.event(high.id, 'COMPLETED');
    assert.deepEqual(idsOf(await steps.claim('many')), [large.id]);
    await cancelAll();
  });

  test('see the runs that fit behind any number that do not', async () => {
    await steps.heartbeat('half-full', has(2, 1));
    await steps.create({ constraints: { cpu: 1 } });
    assert.equal((await steps.claim('half-full')).length, 1);
    const { id } = await steps.create({ priority: -1, constraints: { cpu: 1 } });
    await execute(
      service.dataSource,
      `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select gen_random_uuid(), 0, now(), 0, 0, 2000 from generate_series(1, 1000)`,
    );
    assert.deepEqual(idsOf(await steps.claim('half-full')), [id]);
    await execute(service.dataSource, 'delete from queue where cpu_millis = 2000');
    await cancelAll();
  });

  test('keep a worker free for a run that was passed over for too long, in the database for all processes', async () => {
    const queueRow = (id: string): Promise<unknown[]> =>
      rows(
        service.dataSource,
        `select passed_over_at is not null as "passedOver", reserved_for as "reservedFor"
           from queue
          where run_id = $1::uuid`,
        [id],
      );
    await steps.heartbeat('keeper', has(2, 1));
    const first = await steps.create({ priority: 9, constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('keeper')), [first.id]);
    const big = await steps.create({ constraints: { cpu: 2 } });
    const second = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(await queueRow(big.id), [{ passedOver: false, reservedFor: null }]);
    assert.deepEqual(idsOf(await steps.claim('keeper')), [second.id]);
    assert.deepEqual(await queueRow(big.id), [{ passedOver: true, reservedFor: null }]);

    await execute(service.dataSource, `update queue set passed_over_at = now() - interval '301 s'`);
    const third = await steps.create({ constraints: { cpu: 1 } });
    await steps.event(first.id, 'COMPLETED');
    assert.deepEqual(await steps.claim('keeper'), []);
    assert.deepEqual(await queueRow(big.id), [{ passedOver: true, reservedFor: 'keeper' }]);
    assert.deepEqual(await steps.claim('keeper'), []);
    // However many others are overdue before it, the worker sees what it is kept free for.
    await execute(
      service.dataSource,
      `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis, passed_over_at)
       select gen_random_uuid(), 1, now(), 0, 0, 2000, now() - interval '1 h' from generate_series(1, 1000)`,
    );
    await steps.event(second.id, 'COMPLETED');
    assert.deepEqual(idsOf(await steps.claim('keeper')), [big.id]);
    assert.deepEqual(await queueRow(big.id), []);
    await execute(service.dataSource, 'delete from queue where priority = 1');
    await steps.event(big.id, 'COMPLETED');
    assert.deepEqual(idsOf(await steps.claim('keeper')), [third.id]);
    await cancelAll();
  });

  test('keep another worker free when the first may claim no more', async () => {
    for (const name of ['left', 'right']) {
      await steps.heartbeat(name, has(2, 1));
      await steps.create({ priority: 9, constraints: { cpu: 1 } });
      assert.equal((await steps.claim(name)).length, 1);
    }
    const big = await steps.create({ constraints: { cpu: 2 } });
    await execute(
      service.dataSource,
      `update queue
          set passed_over_at = now() - interval '301 s',
              reserved_for = 'left'
        where run_id = $1::uuid`,
      [big.id],
    );
    const small = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('right')), [small.id], 'left is kept free, right is not');
    await service.send('POST', '/workers/left/drain');
    await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(await steps.claim('right'), []);
    const reserved = await rows(service.dataSource, 'select reserved_for from queue where run_id = $1', [
      big.id,
    ]);
    assert.deepEqual(reserved, [{ reserved_for: 'right' }]);
    await cancelAll();
  });

  test('that wait get a run as soon as their worker has got room for it', async () => {
    await steps.heartbeat('full', has(4, 100));
    const small = await steps.create({ constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await steps.claim('full')), [small.id]);
    const large = await steps.create({ constraints: { cpu: 4 } });
    const waiting = service.send('POST', '/workers/full/claim?wait=30');
    await sleep(300);
    await steps.event(small.id, 'COMPLETED');
    assert.deepEqual(idsOf((await beforeTimeOut(service, waiting)).body.ops), [large.id]);
    await cancelAll();
  });
});

describe('claims by the strategy fit of one worker through two processes at once', () => {
  test('never bring it more than it has', async () => {
    const env = {
      SERVICE_SCHEDULER: 'fit',
      SERVICE_WORKER_POOL: 'shared',
      SERVICE_REAPER_INTERVAL: '3600',
    };
    const service = await startTestApp({ env });
    const twin = await startTestApp({ env, database: service.database });
    const [here, there] = [new RunSteps(service.send), new RunSteps(twin.send)];
    try {
      await here.heartbeat('w', has(4, 100));
      for (let round = 0; round < 20; round += 1) {
        await Promise.all(Array.from({ length: 12 }, () => here.create({ constraints: { cpu: 1 } })));
        const claims = Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? here : there).claim('w'));
        const ids = idsOf((await Promise.all(claims)).flat());
        assert.equal(ids.length, 4, `round ${round}`);
        await Promise.all(ids.map((id) => here.event(id, 'COMPLETED')));
      }
    } finally {
      await twin.close();
      await service.close();
    }
  });
});
