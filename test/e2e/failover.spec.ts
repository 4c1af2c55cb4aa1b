import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { atDepth } from '../support/depth.js';
import { PatroniCluster, reasonToSkip } from '../support/failover/patroni-cluster.js';
import { brokenPromises, WatchedService, type Load } from '../support/failover/watched-service.js';
import { RecordedService } from '../support/history/recorded-service.js';

const skip = await reasonToSkip();
const KILLS = atDepth({ fast: 1, all: 1, soak: 5 });
/** Of each round of a kill, half of them before it. */
const WRITES_A_KILL = atDepth({ fast: 1000, all: 1000, soak: 4000 });
/** Shorter than what scripts/test-process.mjs allows a file, so that everything is tidied up. */
const TIMEOUT_MS = atDepth({ fast: 280_000, all: 280_000, soak: 880_000 });
const MANY: Load = { clients: 16, runsASecond: 60 };
const SOME: Load = { clients: 4, runsASecond: 15 };

function report(context: TestContext, services: readonly WatchedService[]): void {
  for (const service of services) context.diagnostic(`${context.name}: ${service.figures}`);
}

/** Nothing acknowledged is lost or doubled, and no reader was sent back. */
async function assertNothingLost(service: WatchedService): Promise<void> {
  const final = await service.finish();
  assert.deepEqual(brokenPromises(service.history, final), []);
  assert.deepEqual(
    service.tails.flatMap(({ takenBack }) => takenBack),
    [],
  );
}

describe('a PostgreSQL of two nodes whose primary changes under load', { skip, timeout: TIMEOUT_MS }, () => {
  let cluster: PatroniCluster;

  before(async () => {
    cluster = await PatroniCluster.start();
  });
  after(() => cluster.stop());

  const watch = async (name: string, load: Load): Promise<WatchedService> => {
    await cluster.createDatabase(name);
    return WatchedService.start(cluster.proxyUrl(name), load);
  };

  it('loses and doubles nothing when a primary with synchronous replication is killed', async (context) => {
    const services = [await watch('killed', MANY)];
    for (let kill = 0; kill < KILLS; kill += 1) {
      await Promise.all(services.map((service) => service.untilAcknowledged(WRITES_A_KILL / 2)));
      const primary = await cluster.primary();
      const since = RecordedService.now();
      await primary.kill();
      await Promise.all(services.map((service) => service.untilBack(since)));
      await primary.start();
      await cluster.untilSynchronous();
      await Promise.all(services.map((service) => service.untilAcknowledged(WRITES_A_KILL / 2)));
    }
    for (const service of services) await assertNothingLost(service);
    report(context, services);
    assert.ok((services[0]?.acknowledged ?? 0) >= KILLS * WRITES_A_KILL);
  });

  it('loses and doubles nothing in a switchover', async (context) => {
    const services = [await watch('switched', SOME)];
    await Promise.all(services.map((service) => service.untilAcknowledged(100)));
    const since = RecordedService.now();
    await cluster.switchOver();
    await Promise.all(services.map((service) => service.untilBack(since)));
    await Promise.all(services.map((service) => service.untilAcknowledged(100)));
    for (const service of services) await assertNothingLost(service);
    report(context, services);
  });
});
