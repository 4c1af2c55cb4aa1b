import type { Logger } from 'pino';
import type { ClaimObstacles } from './claims/claim-obstacles.js';
import type { Clock } from './clock.js';
import type { Refusal, ServiceApi } from './service-api/service-api.js';

/** Dependencies of most parts of the worker. */
export interface WorkerContext {
  readonly api: ServiceApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For jitter; from 0 to below 1. */
  readonly random: () => number;
  readonly workerId: string;
  readonly obstacles: ClaimObstacles;
  /** Called when the service rejects the worker's key, which ends the worker. */
  readonly onKeyRefused: (refusal: Refusal) => void;
}
