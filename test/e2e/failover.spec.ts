import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { cutHistory } from '../support/backup/cut-history.js';
import { atDepth } from '../support/depth.js';
import { PatroniCluster, reasonToSkip } from '../support/failover/patroni-cluster.js';
import { brokenPromises, WatchedService, type Load } from '../support/failover/watched-service.js';
import { RecordedService } from '../support/history/recorded-service.js';
import { PgBouncer } from '../support/pgbouncer.js';
import { until } from '../support/service-process.js';

const skip = await reasonToSkip();
const KILLS = atDepth({ fast: 1, all: 1, soak: 5 });
/** Of the service behind the proxy; half of them before the kill. */
const WRITES_A_KILL = atDepth({ fast: 1000, all: 1000, soak: 4000 });
/** Shorter than what scripts/test-process.mjs allows a file, so that everything is tidied up. */
const TIMEOUT_MS = atDepth({ fast: 280_000, all: 280_000, soak: 880_000 });

const MANY: Load = { clients: 16, runsASecond: atDepth({ fast: 25, all: 25, soak: 60 }) };
const SOME: Load = { clients: 4, runsASecond: 8 };
const SOME_WRITES = 100;

/** HAProxy, both nodes in the URL, or PgBouncer in session mode in front of HAProxy. */
type Way = 'proxy' | 'hosts' | 'pooler';

type Services = readonly [WatchedService, ...WatchedService[]];

/** The load comes to its end; what it was is told. */
async function rest(context: TestContext, services: Services): Promise<void> {
  await Promise.all(services.map((service) => service.rest()));
  for (const service of services) context.diagnostic(`${context.name}, ${service.name}: ${service.figures}`);
}

async function untilAcknowledged(services: Services, more: number): Promise<void> {
  await Promise.all(services.map((service) => service.untilAcknowledged(more)));
}

async function untilBack(services: Services, since: number): Promise<void> {
  await Promise.all(services.map((service) => service.untilBack(since)));
}

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

describe('a PostgreSQL of two nodes whose primary changes under load', { skip, timeout: TIMEOUT_MS }, () => {
  const cleanUp: (() => Promise<void>)[] = [];
  let cluster: PatroniCluster;

  before(async () => {
    cluster = await PatroniCluster.start();
    cleanUp.push(() => cluster.stop());
  });
  after(async () => {
    for (const step of cleanUp.toReversed()) await step();
  });

  async function urlOf(way: Way, database: string): Promise<string> {
    if (way === 'hosts') return cluster.hostsUrl(database);
    if (way === 'proxy') return cluster.proxyUrl(database);
    const pooler = await PgBouncer.start(cluster.proxyUrl(database), {
      pool_mode: 'session',
      default_pool_size: 100,
      // Its usual 15 s would be added to every silence.
      server_login_retry: 1,
    });
    cleanUp.push(() => pooler.stop());
    return pooler.url;
  }

  async function watch(way: Way, load: Load): Promise<WatchedService> {
    const database = `${way}_${cleanUp.length}_${load.clients}_${performance.now().toFixed(0)}`;
    await cluster.createDatabase(database);
    return WatchedService.start(await urlOf(way, database), { name: way, ...load });
  }

  it('loses and doubles nothing when a primary with synchronous replication is killed', async (context) => {
    const services = [await watch('proxy', MANY), await watch('hosts', SOME)] as const;
    for (let kill = 0; kill < KILLS; kill += 1) {
      await services[0].untilAcknowledged(WRITES_A_KILL / 2);
      const since = RecordedService.now();
      const killed = await cluster.killPrimary();
      await untilBack(services, since);
      await killed.start();
      await cluster.untilSynchronous();
      await services[0].untilAcknowledged(WRITES_A_KILL / 2);
    }
    await rest(context, services);
    await assertNothingLost(services);
    assert.ok(services[0].acknowledged >= KILLS * WRITES_A_KILL);
  });

  it('loses and doubles nothing in a switchover', async (context) => {
    const services = [await watch('pooler', SOME), await watch('hosts', SOME)] as const;
    await untilAcknowledged(services, SOME_WRITES);
    const since = RecordedService.now();
    await cluster.switchOver();
    await untilBack(services, since);
    await untilAcknowledged(services, SOME_WRITES);
    await rest(context, services);
    await assertNothingLost(services);
  });

  it('sends every reader back that is ahead of a standby without the last commits, and no reader skips anything', async (context) => {
    await cluster.untilSynchronous();
    await cluster.setSynchronous(false);
    const services = [await watch('proxy', SOME), await watch('hosts', SOME)] as const;
    await untilAcknowledged(services, SOME_WRITES);
    const began = RecordedService.now();
    await cluster.stopWalSender();
    const ended = RecordedService.now();
    const readers = services.flatMap((service) => service.readers);
    const seen = readers.map(({ count }) => count);
    await until(
      () => readers.every(({ count }, i) => count > (seen[i] ?? 0) + 5),
      'every reader sees what will be lost',
    );
    const lost = RecordedService.now();
    await cluster.killPrimary();
    await untilBack(services, lost);
    await untilAcknowledged(services, SOME_WRITES);
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
