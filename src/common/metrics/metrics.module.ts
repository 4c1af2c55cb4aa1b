import { Global, Module } from '@nestjs/common';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { standardOutput } from '@longshore/common/line-output';
import { measureLog, measureEventLoopLag, sampleDelays } from './process-metrics.js';
import { Refusals } from '../quotas/quota.js';
import { HttpMetrics } from './http-metrics.js';
import { MetricsController, MetricsPage, ServiceRegistry } from './metrics.controller.js';

/** How often the lag of the event loop is sampled, in milliseconds: the default of 10 costs a process that idles half a percent of a core. */
const LAG_SAMPLE_MS = 100;

/** Default metrics of prom-client that are not used: the lag is NaN at times, and the others are gauges named as counters. */
const REPLACED = /^longshore_nodejs_(?:eventloop_lag_.*|active_(?:handles|requests|resources)_total)$/;

/** One registry per application, so that several can live in one process. */
@Global()
@Module({
  controllers: [MetricsController],
  providers: [
    {
      provide: Registry,
      useFactory: (): Registry => {
        const registry = new Registry();
        collectDefaultMetrics({
          register: registry,
          prefix: 'longshore_',
          // Its metrics of the event loop are replaced: it samples as seldom as it can.
          eventLoopMonitoringPrecision: 2 ** 31 - 1,
        });
        for (const { name } of registry.getMetricsAsArray()) {
          if (REPLACED.test(name)) registry.removeSingleMetric(name);
        }
        measureEventLoopLag(registry, sampleDelays(LAG_SAMPLE_MS));
        measureLog(registry, standardOutput);
        return registry;
      },
    },
    { provide: ServiceRegistry, useFactory: () => new ServiceRegistry() },
    MetricsPage,
    HttpMetrics,
    Refusals,
  ],
  exports: [Registry, ServiceRegistry, Refusals],
})
export class MetricsModule {}
