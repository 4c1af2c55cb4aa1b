import type { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import type { ClaimObstacles } from './claims/claim-obstacles.js';
import type { Inabilities } from './claims/inabilities.js';
import type { RunEnd } from './execution/run-end.js';
import type { RunExecution } from './execution/run-execution.js';
import type { Clock } from './process/clock.js';
import type { KeyState } from './service-api/key-watch.js';
import type { Refusal, ServiceApi } from './service-api/service-api.js';

/** What parts of the worker report to others, which listen once all of them exist. */
export type WorkerEvents = EventEmitter<{
  /** Another run may be claimed than before. */
  capacity: [];
  /** There is something new to tell the service. */
  news: [];
  /** A claim obstacle or an inability has changed. */
  reasons: [];
  keyRefused: [refusal: Refusal];
  ended: [execution: RunExecution, end: RunEnd];
  /** A part has failed: the worker ends. */
  error: [error: unknown];
}>;

/** What the service has told by its answers to heartbeats. */
export interface ServiceTerms {
  /** Seconds without a heartbeat after which it treats this worker as stale. */
  workerTimeoutSeconds: number;
  /** Limit for the body of a request, in bytes; null: not known. */
  maxBodyBytes: number | null;
  /** Whether the newest answer tells which runs are lost. */
  tellsLostRuns: boolean;
  /** Aborted after the first accepted heartbeat. */
  readonly registered: AbortController;
}

/** Dependencies of most parts of the worker. */
export interface WorkerContext {
  readonly api: ServiceApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For jitter; from 0 to below 1. */
  readonly random: () => number;
  readonly workerId: string;
  readonly terms: Readonly<ServiceTerms>;
  readonly obstacles: ClaimObstacles;
  readonly inabilities: Inabilities;
  /** Whether the service accepts the worker's key. */
  readonly key: { readonly state: KeyState };
}
