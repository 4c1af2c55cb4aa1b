import type { Logger } from 'pino';
import type { ClaimObstacles } from './claims/claim-obstacles.js';
import type { Inabilities } from './claims/inabilities.js';
import type { Clock } from './process/clock.js';
import type { KeyState } from './service-api/key-watch.js';
import type { ServiceApi } from './service-api/service-api.js';

/** Dependencies of most parts of the worker. */
export interface WorkerContext {
  readonly api: ServiceApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For jitter; from 0 to below 1. */
  readonly random: () => number;
  readonly workerId: string;
  readonly obstacles: ClaimObstacles;
  readonly inabilities: Inabilities;
  /** Whether the service accepts the worker's key. */
  readonly key: { readonly state: KeyState };
}
