import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';

/** What the feed tells about its readers. */
@Injectable()
export class FeedMetrics {
  readonly #readers: Gauge;
  readonly #queries: Counter;
  readonly #stalled: Counter;
  readonly #expired: Counter;

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

  /** Counts entries that retention removed. */
  countExpired(entries: number): void {
    this.#expired.inc(entries);
  }
}
