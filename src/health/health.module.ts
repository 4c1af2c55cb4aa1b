import { Module } from '@nestjs/common';
import { HealthController } from './health.controller.js';
import { HealthService } from './health.service.js';

/** Tells load balancers and people how the service is. */
@Module({ controllers: [HealthController], providers: [HealthService] })
export class HealthModule {}
