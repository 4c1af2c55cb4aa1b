import { Module } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Settings } from '../config/settings.js';
import { WorkerAbsenceEntity, WorkerDrainEntity } from '../database/entities/worker.entity.js';
import { HealthModule } from '../health/health.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { HeldHeartbeats, LostRuns } from './heartbeats/held-heartbeats.js';
import { POOL_PROVIDERS } from './pool/pool.providers.js';
import { WorkerPool } from './pool/worker-pool.js';
import { GracePeriod, OutageDetector } from './reaper/grace-period.js';
import { LostRunSearch } from './reaper/lost-run-search.js';
import { ReaperInstrumentation } from './reaper/reaper-instrumentation.js';
import { Reaper } from './reaper/reaper.js';
import { ReportsController, WorkersController } from './workers.controller.js';
import { WorkersService } from './workers.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([WorkerAbsenceEntity, WorkerDrainEntity]), RunsModule, HealthModule],
  controllers: [WorkersController, ReportsController],
  providers: [
    ...POOL_PROVIDERS,
    WorkersService,
    LostRuns,
    HeldHeartbeats,
    Clock,
    {
      provide: GracePeriod,
      inject: [Settings, Clock],
      useFactory: ({ workerTimeout }: Settings, clock: Clock) => new GracePeriod(workerTimeout * 1000, clock),
    },
    OutageDetector,
    LostRunSearch,
    ReaperInstrumentation,
    Reaper,
  ],
  exports: [WorkerPool, WorkersService],
})
export class WorkersModule {}
