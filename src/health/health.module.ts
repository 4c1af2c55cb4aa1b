import { Module } from '@nestjs/common';
import { CircuitBreaker } from '../database/failover/circuit-breaker.js';
import { HealthChecks } from './health-checks.js';
import { HealthController } from './health.controller.js';

/** Reports the health of the service, from the checks that the contexts register. */
@Module({ controllers: [HealthController], providers: [HealthChecks], exports: [HealthChecks] })
export class HealthModule {
  constructor(breaker: CircuitBreaker, checks: HealthChecks) {
    checks.register('database', async () => ((await breaker.check()) ? 'ok' : 'unreachable'));
  }
}
