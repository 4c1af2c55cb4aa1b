import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import type { DataSource } from 'typeorm';
import { ApiKeyGuard } from './auth/api-key.guard.js';
import { AuthModule } from './auth/auth.module.js';
import { RateLimitGuard } from './auth/rate-limit.guard.js';
import { DashboardModule } from './dashboard/dashboard.module.js';
import { DatabaseModule } from './database/database.module.js';
import { DefinitionsModule } from './definitions/definitions.module.js';
import { ExtensionsModule } from './bootstrap/extensions/extensions.module.js';
import { ArtifactsModule } from './files/artifacts/artifacts.module.js';
import { UploadsModule } from './files/uploads/uploads.module.js';
import { FeedModule } from './feed/feed.module.js';
import { HealthModule } from './health/health.module.js';
import { HttpModule } from './common/http/http.module.js';
import { RequestGuard } from './common/http/request/request.guard.js';
import type { Log } from './common/logging/logger.js';
import { LoggingModule } from './common/logging/logging.module.js';
import { MetricsModule } from './common/metrics/metrics.module.js';
import { RetentionModule } from './retention/retention.module.js';
import { RunLogsModule } from './run-logs/run-logs.module.js';
import { RunsModule } from './runs/runs.module.js';
import { GroupsModule } from './groups/groups.module.js';
import { SchedulesModule } from './schedules/schedules.module.js';
import { SecretsModule } from './secrets/secrets.module.js';
import { StoresModule } from './files/stores/stores.module.js';
import { ApiPages } from './bootstrap/openapi/api-pages.js';
import type { Configuration } from './config/settings.module.js';
import { SchedulingModule } from './common/scheduling/scheduling.module.js';
import { TracingModule } from './common/tracing/tracing.module.js';
import type { Tracing } from '@longshore/common/tracing/tracing';
import { ClaimsModule } from './claims/claims.module.js';
import { WebhooksModule } from './webhooks/webhooks.module.js';
import { WorkersModule } from './workers/workers.module.js';

/** The parts of an application. */
export interface AppParts extends Configuration {
  readonly log: Log;
  /** Connected, with its schema up to date; closed with the application. */
  readonly dataSource: DataSource;
  /** Null, or left out: nothing is traced. */
  readonly tracing?: Tracing | null;
}

/** The service. */
@Module({})
export class AppModule {
  /** @param extensions modules of others: they see what the service exports, and their strategies can be selected */
  static register(
    { settings, settingsModule, log, dataSource, tracing = null }: AppParts,
    extensions: readonly Type[] = [],
  ): DynamicModule {
    // In this order: authenticate and authorise before validating. They run before the guards of extensions.
    const guards = [ApiKeyGuard, ...(settings.rateLimit > 0 ? [RateLimitGuard] : []), RequestGuard];
    return {
      module: AppModule,
      imports: [
        settingsModule,
        LoggingModule.register(log),
        DatabaseModule.register(dataSource),
        TracingModule.register(tracing),
        SchedulingModule,
        MetricsModule,
        AuthModule,
        HttpModule,
        HealthModule,
        FeedModule,
        RunsModule,
        RunLogsModule,
        ExtensionsModule.register(extensions),
        WorkersModule,
        ClaimsModule,
        DefinitionsModule,
        GroupsModule,
        SchedulesModule,
        SecretsModule,
        StoresModule,
        WebhooksModule,
        UploadsModule,
        ArtifactsModule,
        RetentionModule,
        DashboardModule,
      ],
      providers: [...guards.map((guard) => ({ provide: APP_GUARD, useExisting: guard })), ApiPages],
    };
  }
}
