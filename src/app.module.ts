import { Module, type DynamicModule } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import { AuthModule } from './auth/auth.module.js';
import { DatabaseFailures } from './database-failures.js';
import { DatabaseModule } from './database/database.module.js';
import { FeedModule } from './feed/feed.module.js';
import { HealthModule } from './health/health.module.js';
import { FailureClassifier } from './http/failure-classifier.js';
import { HttpModule } from './http/http.module.js';
import { RequestGuard } from './http/request.guard.js';
import type { Log } from './logging/logger.js';
import { LoggingModule } from './logging/logging.module.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { RunsModule } from './runs/runs.module.js';
import { SettingsModule } from './settings/settings.module.js';
import type { Settings } from './settings/settings.js';
import { WorkersModule } from './workers/workers.module.js';

/** What an application is put together from. */
export interface AppParts {
  readonly settings: Settings;
  readonly log: Log;
  /** Connected, with its schema up to date; closed with the application. */
  readonly dataSource: DataSource;
}

/** The service. */
@Module({})
export class AppModule {
  static register({ settings, log, dataSource }: AppParts): DynamicModule {
    return {
      module: AppModule,
      imports: [
        SettingsModule.register(settings),
        LoggingModule.register(log),
        DatabaseModule.register(dataSource),
        ScheduleModule.forRoot(),
        MetricsModule,
        AuthModule,
        HttpModule.register({ maxBodyBytes: settings.maxBodyBytes }),
        HealthModule,
        FeedModule,
        RunsModule,
        WorkersModule,
      ],
      providers: [
        { provide: FailureClassifier, useClass: DatabaseFailures },
        // Bound after the guard of AuthModule: who may not call learns nothing about the request's shape.
        { provide: APP_GUARD, useClass: RequestGuard },
      ],
    };
  }
}
