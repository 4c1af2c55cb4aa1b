import { Global, Module, type DynamicModule } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { DatabaseMetrics } from './database-metrics.js';
import { DatabaseReach } from './database-reach.js';
import { JournalDataSource } from './journal-data-source.js';
import { Notifications } from './notifications.js';
import { PassMetrics } from './pass-metrics.js';

/**
 * Makes the connected database injectable everywhere, by TypeORM's own tokens, and what it notifies of. It is closed
 * with the application.
 */
@Global()
@Module({})
export class DatabaseModule {
  /** @param dataSource connected, with its schema up to date */
  static register(dataSource: DataSource): DynamicModule {
    return {
      module: DatabaseModule,
      imports: [
        TypeOrmModule.forRootAsync({
          useFactory: () => dataSource.options,
          dataSourceFactory: () => Promise.resolve(dataSource),
        }),
      ],
      providers: [Notifications, JournalDataSource, DatabaseReach, DatabaseMetrics, PassMetrics],
      exports: [Notifications, JournalDataSource, DatabaseReach, DatabaseMetrics, PassMetrics],
    };
  }
}
