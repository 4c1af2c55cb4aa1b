import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { atDepth } from '../../support/depth.js';
import {
  FailoverScene,
  rest,
  untilAcknowledged,
  untilBack,
  type Services,
} from '../../support/failover/failover-scene.js';
import { reasonToSkip } from '../../support/failover/patroni-cluster.js';
import type { Load } from '../../support/failover/watched-service.js';
import { brokenPromises } from '../../support/history/broken-promises.js';
import { RecordedService } from '../../support/history/recorded-service.js';
import { skipFor } from '../../support/skip.js';

const skip = await reasonToSkip();
const KILLS = atDepth({ fast: 1, all: 1, soak: 5 });
/** Of the service behind the proxy; half of them before the kill. */
const WRITES_A_KILL = atDepth({ fast: 1000, all: 1000, soak: 4000 });
/** Of a test; a wait within it gives up earlier and says for what. */
const TIMEOUT_MS = atDepth({ fast: 280_000, all: 280_000, soak: 880_000 });

const MANY: Load = { clients: 16, runsASecond: 25 };
const SOME: Load = { clients: 4, runsASecond: 8 };
const SOME_WRITES = 100;

/** Nothing acknowledged is lost or doubled, and no reader was sent back. */
async function assertNothingLost(services: Services): Promise<void> {
  for (const service of services) {
    const final = await service.finish();
    assert.deepEqual(brokenPromises(service.history, final), [], service.name);
    const sentBack = service.readers.filter((reader) => reader.sentBack.length > 0);
    assert.deepEqual(
      sentBack.map(({ reader }) => reader),
      [],
      service.name,
    );
  }
}

describe(
  'a PostgreSQL of two nodes whose primary changes under load',
  { ...skipFor(skip), timeout: TIMEOUT_MS },
  () => {
    let scene: FailoverScene;

    beforeAll(async () => {
      scene = await FailoverScene.start();
    });
    afterAll(() => scene.stop());

    it('loses and doubles nothing when a primary with synchronous replication is killed', async (context) => {
      const services = [await scene.watch('proxy', MANY), await scene.watch('hosts', SOME)] as const;
      for (let kill = 0; kill < KILLS; kill += 1) {
        await services[0].untilAcknowledged(WRITES_A_KILL / 2);
        const { killed, at } = await scene.cluster.killPrimary();
        await untilBack(services, at);
        await killed.start();
        await scene.cluster.untilSynchronous();
        await services[0].untilAcknowledged(WRITES_A_KILL / 2);
      }
      await rest(context, services);
      await assertNothingLost(services);
      assert.ok(services[0].acknowledged >= KILLS * WRITES_A_KILL);
    });

    it('loses and doubles nothing in a switchover', async (context) => {
      const services = [await scene.watch('pooler', SOME), await scene.watch('hosts', SOME)] as const;
      await untilAcknowledged(services, SOME_WRITES);
      const since = RecordedService.now();
      await scene.cluster.switchOver();
      await untilBack(services, since);
      await untilAcknowledged(services, SOME_WRITES);
      await rest(context, services);
      await assertNothingLost(services);
    });
  },
);
