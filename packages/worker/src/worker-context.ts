import type { Logger } from 'pino';
import type { Clock } from './clock.js';
import type { Refusal, ServiceApi } from './service-api/service-api.js';

/** What every part of the worker works with. */
export interface WorkerContext {
  readonly api: ServiceApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly workerId: string;
  /** Called when the service refuses the worker's key: there is nothing left that the worker could do. */
  readonly onKeyRefused: (refusal: Refusal) => void;
}
