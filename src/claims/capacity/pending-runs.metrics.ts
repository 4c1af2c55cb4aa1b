import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { ServiceRegistry } from '../../common/metrics/metrics.controller.js';
import { scrapedReading } from '../../common/metrics/scraped-reading.js';
import { RunCountsMetrics } from '../../runs/counts/run-counts.metrics.js';
import { PENDING_REASON_NAMES } from '../../runs/pending-reason.js';
import { CapacityService } from './capacity.service.js';

/** A gauge of the pending runs by reason, absent while a read fails. While none is pending, nothing is read for it. */
@Injectable()
export class PendingRunsMetrics {
  constructor(counts: RunCountsMetrics, capacity: CapacityService, service: ServiceRegistry) {
    const readReasons = scrapedReading(async () => {
      const found = await counts.read();
      return found && capacity.countByReason(found.states.PENDING);
    });
    const gauge: Gauge<'reason'> = new Gauge({
      name: 'longshore_pending_runs',
      help: 'PENDING runs by the reason for which they wait, of 100,000 at most',
      labelNames: ['reason'],
      registers: [service],
      collect: async () => {
        const found = await readReasons();
        gauge.reset();
        if (!found) return;
        for (const reason of PENDING_REASON_NAMES) gauge.set({ reason }, found[reason]);
      },
    });
  }
}
