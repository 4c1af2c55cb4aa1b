import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { WorkerDrainEntity } from '../database/entities/worker.entity.js';
import { HealthModule } from '../health/health.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { CapacityController } from './capacity/capacity.controller.js';
import { CapacityService } from './capacity/capacity.service.js';
import { ClaimInstrumentation } from './claims/claim-instrumentation.js';
import { EmptyClaimPredictor } from './claims/empty-claim-predictor.js';
import { ClaimService } from './claims/claim.service.js';
import { ClaimsController } from './claims/claims.controller.js';
import { ServedNotifications } from './claims/served-notifications.js';
import { WaitingClaims } from './claims/waiting-claims.js';
import { ExplainController } from './explain/explain.controller.js';
import { ExplainService } from './explain/explain.service.js';
import { OverviewController } from './overview/overview.controller.js';
import { OverviewService } from './overview/overview.service.js';
import { PrunablePool } from './pool/prunable-pool.js';
import { PoolMetrics } from './pool/pool-metrics.js';
import { PoolPresence } from './pool/pool-presence.js';
import { POOL_PROVIDER } from './pool/pool.provider.js';
import { SharedPoolRepository } from './pool/shared-pool.repository.js';
import { WorkerDrainsRepository } from './pool/worker-drains.repository.js';
import { WorkerPool } from './pool/worker-pool.js';
import { REAPER_PROVIDERS } from './reaper/reaper.providers.js';
import { ReportsController } from './reports/reports.controller.js';
import { WorkersController } from './workers.controller.js';
import { WorkersService } from './workers.service.js';

/** Workers: who they are, and what they are given to do. */
@Module({
  imports: [TypeOrmModule.forFeature([WorkerDrainEntity]), RunsModule, HealthModule],
  controllers: [
    WorkersController,
    ClaimsController,
    ReportsController,
    ExplainController,
    OverviewController,
    CapacityController,
  ],
  providers: [
    SharedPoolRepository,
    WorkerDrainsRepository,
    POOL_PROVIDER,
    { provide: WorkerPool, useExisting: PrunablePool },
    PoolPresence,
    PoolMetrics,
    WorkersService,
    WaitingClaims,
    ServedNotifications,
    EmptyClaimPredictor,
    ClaimInstrumentation,
    ClaimService,
    ExplainService,
    OverviewService,
    CapacityService,
    ...REAPER_PROVIDERS,
  ],
  exports: [WorkerPool],
})
export class WorkersModule {}
