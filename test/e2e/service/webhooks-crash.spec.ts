import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { newSecretsKey, senderTo } from '../../support/app/test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { makeDataDir, startService, until } from '../../support/service-process.js';
import { LOCAL_RECEIVERS, startReceiver } from '../../support/webhooks/receiver.js';

const KILLS = atDepth({ fast: 2, all: 10, soak: 50 });
const RUNS = atDepth({ fast: 200, all: 2_000, soak: 10_000 });
const BATCH = 100;

describe('webhooks of a service that is killed again and again', () => {
  it('tell of the end of each run at least once, with one id, and of each run in order', async () => {
    const random = new SeededRandom(testSeed(55));
    const dataDir = await makeDataDir();
    const receiver = await startReceiver();
    const env = { ...LOCAL_RECEIVERS, SERVICE_SECRETS_KEY: newSecretsKey() };
    let service = await startService({ dataDir, env });
    const send: ReturnType<typeof senderTo> = (...request) =>
      senderTo(service.url, service.adminKey)(...request);
    const events = ['run.created', 'run.cancelled'];
    assert.equal((await send('POST', '/webhooks', { body: { url: receiver.url, events } })).status, 201);
    const ended = new Set<string>();
    for (let round = 0; round < KILLS; round += 1) {
      for (let batch = 0; batch < RUNS / KILLS / BATCH; batch += 1) {
        const body = { runs: Array.from({ length: BATCH }, () => ({ image: 'image' })) };
        const created = await send('POST', '/runs/batch', { body });
        const ids: string[] = created.body.results.map(({ run }: { run: { id: string } }) => run.id);
        assert.equal((await send('POST', '/runs/batch/cancel', { body: { ids } })).status, 200);
        for (const id of ids) ended.add(id);
      }
      await sleep(random.int(0, 1_500));
      await service.kill();
      service = await startService({ dataDir, env });
    }
    const told = (): Set<string> =>
      new Set(
        receiver.received
          .filter(({ body }) => body.type === 'run.cancelled')
          .map(({ body }) => body.data.run_id),
      );
    await until(() => {
      const all = told();
      return [...ended].every((id) => all.has(id));
    }, 'the end of each run is told');
    assert.equal(await service.stop(), 0);
    await receiver.close();
    const firsts = new Map<string, string[]>();
    for (const { id, body } of receiver.received) {
      const types = firsts.get(body.data.run_id) ?? [];
      if (!types.includes(id)) firsts.set(body.data.run_id, [...types, id]);
    }
    for (const [run, ids] of firsts) {
      assert.deepEqual(ids, [`run-created_${run}`, `run-cancelled_${run}_0`]);
    }
  });
});
