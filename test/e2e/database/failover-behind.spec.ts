import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { cutHistory } from '../../support/backup/cut-history.js';
import { FailoverScene, rest, untilAcknowledged, untilBack } from '../../support/failover/failover-scene.js';
import { reasonToSkip } from '../../support/failover/patroni-cluster.js';
import type { Load } from '../../support/failover/watched-service.js';
import { brokenPromises } from '../../support/history/broken-promises.js';
import { RecordedService } from '../../support/history/recorded-service.js';
import { until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const skip = await reasonToSkip();
const LOAD: Load = { clients: 4, runsASecond: 8 };
const WRITES = 100;

describe('a PostgreSQL of two nodes with asynchronous replication', skipFor(skip), () => {
  let scene: FailoverScene;

  beforeAll(async () => {
    scene = await FailoverScene.start();
  });
  afterAll(() => scene.stop());

  it('sends every reader back that is ahead of a standby without the last commits, and no reader skips anything', async (context) => {
    await scene.cluster.setSynchronous(false);
    const services = [await scene.watch('proxy', LOAD), await scene.watch('hosts', LOAD)] as const;
    await untilAcknowledged(services, WRITES);
    const began = RecordedService.now();
    await scene.cluster.stopWalSender();
    const ended = RecordedService.now();
    const readers = services.flatMap((service) => service.readers);
    const seen = readers.map(({ count }) => count);
    await until(
      () => readers.every(({ count }, i) => count > (seen[i] ?? 0) + 5),
      'every reader sees what will be lost',
    );
    const { at: lost } = await scene.cluster.killPrimary();
    await untilBack(services, lost);
    await untilAcknowledged(services, WRITES);
    await rest(context, services);
    for (const service of services) {
      const final = await service.finish();
      const history = cutHistory(service.history, { began, ended, lost });
      assert.deepEqual(brokenPromises(history, final), [], service.name);
      for (const { reader, sentBack } of service.readers) {
        assert.equal(sentBack.length, 1, `${service.name}, ${reader}: answers of 410`);
      }
    }
  });
});
