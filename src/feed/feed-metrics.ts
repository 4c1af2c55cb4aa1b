import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

@Injectable()
export class FeedMetrics {
  readonly openReaders: Gauge;
  readonly queries: Counter;
  readonly stalledStreams: Counter;
  readonly expiredEntries: Counter;
  readonly cacheReads: Counter<'result'>;
  readonly cachedBytes: Gauge;
  readonly #lag: Histogram;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
    this.openReaders = new Gauge({
      name: 'longshore_feed_readers',
      help: 'Open streams and waiting polls',
      registers,
    });
    this.queries = counter('longshore_feed_queries_total', 'Queries made for readers of the feed');
    this.stalledStreams = counter(
      'longshore_feed_stalled_streams_total',
      'Streams cut off because their readers were too slow',
    );
    this.expiredEntries = counter(
      'longshore_feed_expired_entries_total',
      'Feed entries removed by retention',
    );
    this.cacheReads = new Counter({
      name: 'longshore_feed_cache_reads_total',
      help: 'Reads of feeds that the cache served (hit), and those that read events from the database (miss)',
      labelNames: ['result'],
      registers,
    });
    this.cachedBytes = new Gauge({
      name: 'longshore_feed_cache_bytes',
      help: 'Estimated bytes of cached events of feeds',
      registers,
    });
    this.#lag = new Histogram({
      name: 'longshore_feed_delivery_lag_seconds',
      help: 'Time from an event to its delivery to a reader who had read everything before',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
      registers,
    });
  }

  /** Observes a delivery to a waiting reader. @param oldest time of its first event */
  observeDelivery(oldest: Date): void {
    // The time is the database's, which may be ahead of this process's.
    this.#lag.observe(Math.max(0, Date.now() - oldest.getTime()) / 1000);
  }
}
