import type { TestContext } from 'vitest';
import { PgBouncer } from '../postgres/pgbouncer.js';
import { PatroniCluster } from './patroni-cluster.js';
import { WatchedService, type Load } from './watched-service.js';

/** How a service finds the primary: by HAProxy, by both nodes in its URL, or by PgBouncer in session mode before HAProxy. */
export type Way = 'proxy' | 'hosts' | 'pooler';

/** A cluster and services on it, each on a database of its own. */
export class FailoverScene {
  readonly #poolers: PgBouncer[] = [];
  #databases = 0;

  private constructor(readonly cluster: PatroniCluster) {}

  static async start(): Promise<FailoverScene> {
    return new FailoverScene(await PatroniCluster.start());
  }

  /** Starts a service under load on an empty database. */
  async watch(way: Way, load: Load): Promise<WatchedService> {
    this.#databases += 1;
    const database = `service_${this.#databases}`;
    await this.cluster.createDatabase(database);
    return WatchedService.start(await this.#urlOf(way, database), { name: way, ...load });
  }

  /** Ends poolers and cluster; services end with the test file. */
  async stop(): Promise<void> {
    for (const pooler of this.#poolers) await pooler.stop();
    await this.cluster.stop();
  }

  async #urlOf(way: Way, database: string): Promise<string> {
    if (way === 'hosts') return this.cluster.hostsUrl(database);
    if (way === 'proxy') return this.cluster.proxyUrl(database);
    const pooler = await PgBouncer.start(this.cluster.proxyUrl(database), {
      pool_mode: 'session',
      default_pool_size: 100,
      // Its usual 15 s would be added to every silence.
      server_login_retry: 1,
    });
    this.#poolers.push(pooler);
    return pooler.url;
  }
}

/** Services whose primary fails over at the same time. */
export type Services = readonly [WatchedService, ...WatchedService[]];

export async function untilAcknowledged(services: Services, more: number): Promise<void> {
  await Promise.all(services.map((service) => service.untilAcknowledged(more)));
}

export async function untilBack(services: Services, since: number): Promise<void> {
  await Promise.all(services.map((service) => service.untilBack(since)));
}

/** The load comes to its end; what it was is told to people. */
export async function rest(context: TestContext, services: Services): Promise<void> {
  await Promise.all(services.map((service) => service.rest()));
  for (const service of services)
    await context.annotate(`${context.task.name}, ${service.name}: ${service.figures}`);
}
