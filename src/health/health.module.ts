import { Module } from '@nestjs/common';
import { CircuitBreaker } from '../database/failover/circuit-breaker.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import { WriteCheck } from '../database/failover/write-check.js';
import { FileStoreState } from './file-store-state.js';
import { HealthChecks } from './health-checks.js';
import { HealthController } from './health.controller.js';

/** Reports the health of the service, from the checks that the contexts register. */
@Module({
  controllers: [HealthController],
  providers: [HealthChecks, FileStoreState],
  exports: [HealthChecks, FileStoreState],
})
export class HealthModule {
  constructor(breaker: CircuitBreaker, writes: WriteCheck, jobs: JobScheduler, checks: HealthChecks) {
    checks.register('database', async () => {
      if (!(await breaker.check())) return 'unreachable';
      return writes.isRefused ? 'refusing' : 'ok';
    });
    checks.register('jobs', () => (jobs.isFailing ? 'failing' : 'ok'));
  }
}
