import { Injectable } from '@nestjs/common';
import type { LogPage } from './log-page.js';
import { LogStoreOverloaded } from './run-logs.errors.js';

/** Which log, and where in it. */
export interface LogPlace {
  readonly runId: string;
  readonly attempt: number | undefined;
  readonly after: string | undefined;
}

/** What of it. */
export interface LogChoice {
  readonly limit?: number;
  readonly contains?: string;
  readonly tail?: number;
}

/** Where a stream goes to. */
export interface LogSink {
  /** Called once, when nothing stands in the way of the stream. */
  begin(): void;
  /** Resolves when the reader is ready for more. */
  send(frames: Buffer): Promise<void>;
}

/** Reading logs: pages, long polls and streams. */
@Injectable()
export class LogService {
  getPage(_place: LogPlace, _choice: LogChoice): Promise<LogPage> {
    return Promise.reject(new LogStoreOverloaded());
  }
  awaitPage(_place: LogPlace, _choice: LogChoice, _forMs: number, _signal: AbortSignal): Promise<LogPage> {
    return Promise.reject(new LogStoreOverloaded());
  }
  stream(_place: LogPlace, _sink: LogSink, _signal: AbortSignal): Promise<void> {
    return Promise.reject(new LogStoreOverloaded());
  }
}
