import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';

@Injectable()
export class LogMetrics {
  readonly openReaders: Gauge;
  readonly stalledStreams: Counter;
  readonly chunks: Counter;
  readonly textBytes: Counter;
  readonly packedBytes: Counter;
  readonly refusedChunks: Counter;
  readonly removedRuns: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
    this.openReaders = new Gauge({
      name: 'longshore_log_readers',
      help: 'Open streams and waiting polls of logs',
      registers,
    });
    this.stalledStreams = counter(
      'longshore_log_stalled_streams_total',
      'Streams of logs cut off because their readers were too slow',
    );
    this.chunks = counter('longshore_log_chunks_total', 'Chunks of logs stored');
    this.textBytes = counter('longshore_log_text_bytes_total', 'Text of the stored chunks');
    this.packedBytes = counter(
      'longshore_log_packed_bytes_total',
      'Bytes of log lines that were stored, compressed',
    );
    this.refusedChunks = counter(
      'longshore_log_refused_chunks_total',
      'Chunks refused because too much was waiting to be stored',
    );
    this.removedRuns = counter('longshore_log_removed_runs_total', 'Removed runs whose logs were removed');
  }
}
