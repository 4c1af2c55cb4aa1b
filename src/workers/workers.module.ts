import { Module } from '@nestjs/common';
import { RunsModule } from '../runs/runs.module.js';
import { Settings } from '../settings/settings.js';
import { ClaimService } from './claim.service.js';
import { MemoryWorkerPool } from './pool/memory-worker-pool.js';
import { WorkerPool } from './pool/worker-pool.js';
import { SCHEDULER_PROVIDER, STRATEGIES_PROVIDER } from './strategies/scheduler.js';
import { WorkersController } from './workers.controller.js';

/** Workers: who they are, and what they are given to do. */
@Module({
  imports: [RunsModule],
  controllers: [WorkersController],
  providers: [
    {
      provide: WorkerPool,
      inject: [Settings],
      useFactory: (settings: Settings): WorkerPool => new MemoryWorkerPool(settings.workerTimeout * 1000),
    },
    STRATEGIES_PROVIDER,
    SCHEDULER_PROVIDER,
    ClaimService,
  ],
  exports: [WorkerPool],
})
export class WorkersModule {}
