import { Injectable } from '@nestjs/common';
import type { ChunkAddress } from './chunk-address.js';
import type { LogChunk } from './log-chunk.js';
import { LogStoreOverloaded } from './run-logs.errors.js';

/** How far a log has come. */
export interface LogPosition {
  readonly nextChunk: number;
  readonly nextLine: number;
}

/** Adds chunks to logs. */
@Injectable()
export class LogWriter {
  add(_address: ChunkAddress, _chunk: LogChunk): Promise<LogPosition> {
    return Promise.reject(new LogStoreOverloaded());
  }
}
