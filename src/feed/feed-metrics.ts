import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** What the feed tells about its readers. */
@Injectable()
export class FeedMetrics {
  readonly #readers: Gauge;
  readonly #queries: Counter;
  readonly #stalled: Counter;
  readonly #expired: Counter;
  readonly #lag: Histogram;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#readers = new Gauge({
      name: 'longshore_feed_readers',
      help: 'Open streams and waiting polls',
      registers,
    });
    this.#queries = new Counter({
      name: 'longshore_feed_queries_total',
      help: 'Queries made for readers of the feed',
      registers,
    });
    this.#stalled = new Counter({
      name: 'longshore_feed_stalled_streams_total',
      help: 'Streams cut off because their readers were too slow',
      registers,
    });
    this.#expired = new Counter({
      name: 'longshore_feed_expired_entries_total',
      help: 'Feed entries removed by retention',
      registers,
    });
    this.#lag = new Histogram({
      name: 'longshore_feed_delivery_lag_seconds',
      help: 'Time from an event to its delivery to a reader who had read everything before',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
      registers,
    });
  }

  /** Tells how many readers are open. */
  showReaders(count: number): void {
    this.#readers.set(count);
  }

  /** Counts one query for readers. */
  countQuery(): void {
    this.#queries.inc();
  }

  /** Counts one stream that was cut off. */
  countStalled(): void {
    this.#stalled.inc();
  }

  /** Notes that a reader who waited for events was given some. @param oldest when the first of them was recorded */
  noteDelivery(oldest: string): void {
    // The event has the database's time, which may be a little ahead of this process's.
    this.#lag.observe(Math.max(0, Date.now() - Date.parse(oldest)) / 1000);
  }

  /** Counts entries that retention removed. */
  countExpired(entries: number): void {
    this.#expired.inc(entries);
  }
}
