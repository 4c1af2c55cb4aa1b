import { Injectable, type OnModuleInit, Global, Module, type DynamicModule } from '@nestjs/common';
import { DiscoveryService, DiscoveryModule } from '@nestjs/core';
import { EntitySchema, Repository, type EntityTarget, DataSource } from 'typeorm';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DatabaseTurns } from '../common/http/server/database-turns.js';
import { Log } from '../common/logging/logger.js';
import { CircuitBreaker } from './failover/circuit-breaker.js';
import { DatabaseMetrics } from './database-metrics.js';
import { CommitNotices } from './notices/commit-notices.js';
import { readOptions } from './failover/connection-options.js';
import { PromotionCheck } from './failover/promotion-check.js';
import { JournalDataSource } from './failover/reserved-connection.js';
import { WriteCheck } from './failover/write-check.js';

export class UnknownEntities extends Error {
  constructor(names: readonly string[]) {
    super(`TypeOrmModule.forFeature: the data source was opened without the entity ${names.join(', ')}`);
  }
}

/**
 * Stops the start when `TypeOrmModule.forFeature` registers an entity that its data source does not have. TypeORM
 * itself reports this only when the repository is used.
 */
@Injectable()
class KnownEntitiesCheck implements OnModuleInit {
  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws UnknownEntities */
  onModuleInit(): void {
    const unknown = new Set<string>();
    for (const { instance } of this.discovery.getProviders()) {
      const isUnknown =
        instance instanceof Repository && !instance.manager.dataSource.hasMetadata(instance.target);
      if (isUnknown) unknown.add(nameOf(instance.target));
    }
    if (unknown.size > 0) throw new UnknownEntities([...unknown]);
  }
}

function nameOf(target: EntityTarget<object>): string {
  if (typeof target === 'string') return target;
  return target instanceof EntitySchema ? target.options.name : target.name;
}

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
        WriteCheck,
        DatabaseMetrics,
        DatabaseTurns,
        KnownEntitiesCheck,
      ],
      exports: [
        CircuitBreaker,
        CommitNotices,
        JournalDataSource,
        PromotionCheck,
        WriteCheck,
        DatabaseMetrics,
        DatabaseTurns,
      ],
    };
  }
}
