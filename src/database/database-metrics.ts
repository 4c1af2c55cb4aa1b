import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { DatabaseAvailability } from './database-availability.js';
import { JournalDataSource } from './journal-data-source.js';
import { poolOf } from './sql.js';

/** What each pool of connections is for. */
export type PoolName = 'main' | 'journal' | 'heartbeats';

/** Tells how the pools of connections of this process are, and whether the database is away. */
@Injectable()
export class DatabaseMetrics {
  readonly #pools = new Map<PoolName, DataSource>();

  constructor(registry: Registry, reach: DatabaseAvailability, main: DataSource, journal: JournalDataSource) {
    const registers = [registry];
    this.#pools.set('main', main).set('journal', journal.dataSource);
    const size: Gauge<'pool'> = new Gauge({
      name: 'longshore_database_pool_size',
      help: 'Connections that a pool may have',
      labelNames: ['pool'],
      registers,
      collect: () => this.#each((pool, { options }) => size.set({ pool }, options.max)),
    });
    const connections: Gauge<'pool' | 'state'> = new Gauge({
      name: 'longshore_database_pool_connections',
      help: 'Open connections of a pool, in use or idle',
      labelNames: ['pool', 'state'],
      registers,
      collect: () =>
        this.#each((pool, { totalCount, idleCount }) => {
          connections.set({ pool, state: 'busy' }, totalCount - idleCount);
          connections.set({ pool, state: 'idle' }, idleCount);
        }),
    });
    const waiting: Gauge<'pool'> = new Gauge({
      name: 'longshore_database_pool_waiting',
      help: 'Those who wait for a connection of a pool',
      labelNames: ['pool'],
      registers,
      collect: () => this.#each((pool, { waitingCount }) => waiting.set({ pool }, waitingCount)),
    });
    const away: Gauge = new Gauge({
      name: 'longshore_database_away',
      help: 'Whether the database is away: 1 or 0',
      registers,
      aggregator: 'max',
      collect: () => away.set(reach.isAway ? 1 : 0),
    });
    const outages = new Counter({
      name: 'longshore_database_outages_total',
      help: 'Times that the database went away',
      registers,
    });
    reach.onLoss(() => outages.inc());
  }

  /** Tells of one more pool. */
  watch(name: PoolName, dataSource: DataSource): void {
    this.#pools.set(name, dataSource);
  }

  #each(tell: (name: PoolName, pool: NonNullable<ReturnType<typeof poolOf>>) => void): void {
    for (const [name, dataSource] of this.#pools) {
      const pool = poolOf(dataSource);
      if (pool) tell(name, pool);
    }
  }
}
