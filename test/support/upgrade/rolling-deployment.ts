import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@longshore/embedded-postgres';
import { CHAOS_ENV } from '../history/chaos-deployment.js';
import { Wire } from '../history/wire.js';
import { SERVICE_MAIN, startService, type ServiceProcess } from '../service-process.js';
import { TcpProxy, type ProxyRoute } from '../postgres/tcp-proxy.js';
import { endServer, makeTestDirectory } from '../test-cluster.js';
import type { BuiltVersion } from './previous-version.js';

/** Key of everybody in these tests; it has the scope admin. */
export const UPGRADE_KEY = 'upgrade-admin-key-of-the-tests';

const DATABASE_OPTIONS = { fsync: 'off', full_page_writes: 'off' } as const;

/** Which version a place runs. */
export type Version = 'old' | 'new';

interface Place {
  process: ServiceProcess | undefined;
  version: Version;
  readonly route: ProxyRoute;
}

/**
 * Two places on one PostgreSQL, as behind a load balancer: each runs one version of the service, and is given another one
 * by starting that first, leading callers there, and stopping the one before in order.
 */
export class RollingDeployment {
  readonly wires: readonly Wire[];
  /** Exit codes of all servers that were stopped. */
  readonly exitCodes: (number | null)[] = [];

  private constructor(
    private readonly directory: string,
    private readonly postgres: EmbeddedPostgres,
    private readonly proxy: TcpProxy,
    private readonly old: BuiltVersion,
    private readonly places: readonly [Place, Place],
  ) {
    this.wires = places.map(({ route }) => new Wire(route.port, UPGRADE_KEY));
  }

  /** Starts the old version at both places. */
  static async start(old: BuiltVersion): Promise<RollingDeployment> {
    const directory = await makeTestDirectory('upgrade-');
    const postgres = await startEmbeddedPostgres({
      dataDir: join(directory, 'data'),
      serverOptions: DATABASE_OPTIONS,
      log: () => undefined,
    });
    const proxy = await TcpProxy.start(1);
    const open = async (): Promise<Place> => ({
      process: undefined,
      version: 'old',
      route: await proxy.open({ path: '/nowhere' }),
    });
    const deployment = new RollingDeployment(directory, postgres, proxy, old, [await open(), await open()]);
    await deployment.roll(0, 'old');
    await deployment.roll(1, 'old');
    return deployment;
  }

  /** Of the database. */
  get databaseUrl(): string {
    return this.postgres.url;
  }

  /** Where a place is reached, whatever runs there. */
  urlOf(which: 0 | 1): string {
    return `http://127.0.0.1:${this.places[which].route.port}`;
  }

  /** The versions at the two places. */
  get versions(): readonly Version[] {
    return this.places.map(({ version }) => version);
  }

  /** Puts a version at a place; callers notice nothing but, at worst, a connection that ends. */
  async roll(which: 0 | 1, version: Version): Promise<void> {
    const place = this.places[which];
    const before = place.process;
    const started = await startService({
      main: version === 'old' ? this.old.serviceMain : SERVICE_MAIN,
      env: {
        DATABASE_URL: this.postgres.url,
        SERVICE_API_KEYS: `admin:${UPGRADE_KEY}`,
        ...CHAOS_ENV,
        SERVICE_LOG_LEVEL: 'warning',
      },
    });
    await place.route.lead({ port: Number(new URL(started.url).port) });
    place.process = started;
    place.version = version;
    if (before !== undefined) this.exitCodes.push(await before.stop());
  }

  /** What the servers that run now have said at the level of errors. */
  get errors(): string {
    return this.places
      .map(({ process }) => process?.output ?? '')
      .join('')
      .split('\n')
      .filter((line) => /"level":"error"/.test(line))
      .join('\n');
  }

  /** Stops everything in order. */
  async close(): Promise<void> {
    try {
      for (const wire of this.wires) wire.close();
      for (const place of this.places) {
        const { process } = place;
        place.process = undefined;
        if (process !== undefined) this.exitCodes.push(await process.stop());
      }
    } finally {
      await this.proxy.close();
      await this.postgres.stop();
      await endServer(this.postgres.dataDir);
      await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
    }
  }
}
