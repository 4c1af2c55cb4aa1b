import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { scrapedReading } from '../common/metrics/scraped-reading.js';
import { CircuitBreaker } from './failover/circuit-breaker.js';
import { JournalDataSource } from './failover/reserved-connection.js';
import { WriteCheck } from './failover/write-check.js';
import { poolOf, rows } from './sql/sql.js';

export type PoolName = 'main' | 'journal' | 'heartbeats';

/** Metrics of the connection pools and the circuit breaker of this process. */
@Injectable()
export class DatabaseMetrics {
  readonly #pools = new Map<PoolName, DataSource>();

  constructor(
    registry: Registry,
    breaker: CircuitBreaker,
    writes: WriteCheck,
    main: DataSource,
    journal: JournalDataSource,
  ) {
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
      help: 'Requests that wait for a connection of a pool',
      labelNames: ['pool'],
      registers,
      collect: () => this.#each((pool, { waitingCount }) => waiting.set({ pool }, waitingCount)),
    });
    const unreachable: Gauge = new Gauge({
      name: 'longshore_database_unreachable',
      help: 'Whether the database is unreachable: 1 or 0',
      registers,
      aggregator: 'max',
      collect: () => unreachable.set(breaker.error ? 1 : 0),
    });
    const refused: Gauge = new Gauge({
      name: 'longshore_database_refusing',
      help: 'Whether the database refuses writes or new connections: 1 or 0',
      registers,
      aggregator: 'max',
      collect: () => refused.set(writes.isRefused ? 1 : 0),
    });
    const readUsage = scrapedReading(async () => {
      const [row] = await rows<{ usage: number }>(main, 'select pg_notification_queue_usage() as usage');
      return row?.usage ?? null;
    });
    const usage: Gauge = new Gauge({
      name: 'longshore_database_notification_queue_usage',
      help: 'Share of the queue of notifications that is in use, from 0 to 1: at 1 nothing can be written',
      registers,
      aggregator: 'max',
      collect: async () => {
        const share = await readUsage();
        if (share === null) usage.reset();
        else usage.set(share);
      },
    });
    const outages = new Counter({
      name: 'longshore_database_outages_total',
      help: 'Times that the database became unreachable',
      registers,
    });
    breaker.on('open', () => outages.inc());
  }

  /** Adds the metrics of one more pool. */
  addPool(name: PoolName, dataSource: DataSource): void {
    this.#pools.set(name, dataSource);
  }

  #each(set: (name: PoolName, pool: NonNullable<ReturnType<typeof poolOf>>) => void): void {
    for (const [name, dataSource] of this.#pools) {
      const pool = poolOf(dataSource);
      if (pool) set(name, pool);
    }
  }
}
