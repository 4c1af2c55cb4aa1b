import { Module } from '@nestjs/common';
import { HealthChecks } from './health-checks.js';
import { HealthController } from './health.controller.js';
import { HealthService } from './health.service.js';

/** Tells load balancers and people how the service is, from what the contexts register. */
@Module({
  controllers: [HealthController],
  providers: [HealthService, HealthChecks],
  exports: [HealthChecks],
})
export class HealthModule {}
