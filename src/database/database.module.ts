import { Global, Module, type DynamicModule } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { Log } from '../common/logging/logger.js';
import { CircuitBreaker } from './failover/circuit-breaker.js';
import { DatabaseMetrics } from './database-metrics.js';
import { KnownEntitiesCheck } from './known-entities.check.js';
import { CommitNotices } from './notices/commit-notices.js';
import { readOptions } from './failover/connection-options.js';
import { PromotionCheck } from './failover/promotion-check.js';
import { JournalDataSource } from './failover/reserved-connection.js';

/**
 * Provides the data source by the tokens of @nestjs/typeorm, so that `TypeOrmModule.forFeature` works in every module. The
 * data source is closed with the application.
 */
@Global()
@Module({})
export class DatabaseModule {
  /** @param dataSource connected, with an up-to-date schema */
  static register(dataSource: DataSource): DynamicModule {
    const { circuitBreaker } = readOptions(dataSource).extra;
    return {
      module: DatabaseModule,
      imports: [
        DiscoveryModule,
        TypeOrmModule.forRootAsync({
          useFactory: () => dataSource.options,
          dataSourceFactory: () => Promise.resolve(dataSource),
        }),
      ],
      providers: [
        {
          provide: CircuitBreaker,
          inject: [Log],
          useFactory: (log: Log) =>
            circuitBreaker
              .on('open', ({ message }) => log.warn('the database is unreachable', { reason: message }))
              .on('close', (afterMs) => log.info('the database is reachable again', { afterMs })),
        },
        CommitNotices,
        JournalDataSource,
        PromotionCheck,
        DatabaseMetrics,
        KnownEntitiesCheck,
      ],
      exports: [CircuitBreaker, CommitNotices, JournalDataSource, PromotionCheck, DatabaseMetrics],
    };
  }
}
