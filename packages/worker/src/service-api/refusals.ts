import type { Refusal } from './service-api.js';

/** Whether the key is bound to workers with other ids. */
export function isIdRefusal({ status, detail }: Refusal): boolean {
  return status === 403 && detail.startsWith('API key is not bound to worker');
}

/** Whether the service refuses the content, so that it would refuse it from any sender. */
export function isContentRefused({ status }: Refusal): boolean {
  return [400, 413, 415, 422].includes(status);
}

/** Whether a refused event means that the run has ended or is assigned to another worker. */
export function isRunLost({ status, detail }: Refusal): boolean {
  // An event of another process of this worker has the key.
  if (status === 409) return !detail.startsWith('Idempotency-Key');
  return status === 400 && detail.startsWith('Run is already in terminal state');
}

/** Whether the service has no such run: another 404 may be of a route that an older service does not have. */
export function isRunUnknown({ status, detail }: Refusal): boolean {
  return status === 404 && detail.startsWith('OpRun ');
}
