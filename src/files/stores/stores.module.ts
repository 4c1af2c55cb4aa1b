import { Module } from '@nestjs/common';
import { Clock } from '../../common/clock.js';
import { Settings } from '../../config/settings.js';
import { HealthModule } from '../../health/health.module.js';
import { FolderController } from './folder.controller.js';
import { StoreMetrics } from './store-metrics.js';
import { StoreProbe } from './store-probe.js';
import { Stores } from './stores.js';

/** Where the bytes of files are: a folder or a bucket, and buckets by name. */
@Module({
  imports: [HealthModule],
  controllers: [FolderController],
  providers: [
    {
      provide: Stores,
      inject: [Settings, Clock],
      useFactory: (settings: Settings, clock: Clock) => Stores.open(settings, clock),
    },
    Clock,
    StoreMetrics,
    StoreProbe,
  ],
  exports: [StoreMetrics, Stores],
})
export class StoresModule {}
