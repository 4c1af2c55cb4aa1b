import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';

/** What one stored chunk comes to. */
export interface StoredChunk {
  /** Bytes of its text. */
  readonly textBytes: number;
  /** Bytes that it takes in the database. */
  readonly packedBytes: number;
}

/** What logs tell about themselves. */
@Injectable()
export class LogMetrics {
  readonly #readers: Gauge;
  readonly #stalled: Counter;
  readonly #chunks: Counter;
  readonly #textBytes: Counter;
  readonly #packedBytes: Counter;
  readonly #refused: Counter;
  readonly #removed: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
    this.#readers = new Gauge({
      name: 'longshore_log_readers',
      help: 'Open streams and waiting polls of logs',
      registers,
    });
    this.#stalled = counter(
      'longshore_log_stalled_streams_total',
      'Streams of logs cut off because their readers were too slow',
    );
    this.#chunks = counter('longshore_log_chunks_total', 'Chunks of logs stored');
    this.#textBytes = counter('longshore_log_text_bytes_total', 'Text of the stored chunks');
    this.#packedBytes = counter('longshore_log_packed_bytes_total', 'The same, compressed');
    this.#refused = counter(
      'longshore_log_refused_chunks_total',
      'Chunks refused because too much was waiting to be stored',
    );
    this.#removed = counter('longshore_log_removed_runs_total', 'Removed runs whose logs were removed');
  }

  /** Tells how many readers are open. */
  showReaders(count: number): void {
    this.#readers.set(count);
  }

  /** Counts one stream that was cut off. */
  countStalled(): void {
    this.#stalled.inc();
  }

  /** Counts one chunk. */
  countChunk({ textBytes, packedBytes }: StoredChunk): void {
    this.#chunks.inc();
    this.#textBytes.inc(textBytes);
    this.#packedBytes.inc(packedBytes);
  }

  /** Counts one chunk that found no room. */
  countRefused(): void {
    this.#refused.inc();
  }

  /** Counts runs whose logs were removed. */
  countRemoved(runs: number): void {
    this.#removed.inc(runs);
  }
}
