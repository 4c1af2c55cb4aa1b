import { Global, Module, type DynamicModule } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { DatabaseMetrics } from './database-metrics.js';
import { DatabaseAvailability } from './database-availability.js';
import { JournalDataSource } from './journal-data-source.js';
import { KnownEntitiesCheck } from './known-entities.check.js';
import { Notifications } from './notifications.js';

/**
 * Provides the connected data source by the tokens of @nestjs/typeorm, so that `TypeOrmModule.forFeature` works in every
 * module, and the notifications of the database. The data source is closed with the application.
 */
@Global()
@Module({})
export class DatabaseModule {
  /** @param dataSource connected, with its schema up to date */
  static register(dataSource: DataSource): DynamicModule {
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
        Notifications,
        JournalDataSource,
        DatabaseAvailability,
        DatabaseMetrics,
        KnownEntitiesCheck,
      ],
      exports: [Notifications, JournalDataSource, DatabaseAvailability, DatabaseMetrics],
    };
  }
}
