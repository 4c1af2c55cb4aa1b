import { Global, Module } from '@nestjs/common';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { MetricsController } from './metrics.controller.js';
import { MetricsPage } from './metrics-page.js';

/** One registry per application, so that several can live in one process. */
@Global()
@Module({
  controllers: [MetricsController],
  providers: [
    {
      provide: Registry,
      useFactory: (): Registry => {
        const registry = new Registry();
        collectDefaultMetrics({ register: registry, prefix: 'longshore_' });
        return registry;
      },
    },
    MetricsPage,
  ],
  exports: [Registry],
})
export class MetricsModule {}
