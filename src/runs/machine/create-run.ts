import type { NewRun, Run } from './run.js';

/** The run that a creation makes: pending, attempt 1, an empty timeline. `now` is the database's time. */
export function createRun(fresh: NewRun, now: Date): Run {
  return {
    id: fresh.id,
    state: 'PENDING',
    priority: fresh.priority,
    progress: 0,
    attempt: 1,
    attemptId: fresh.attemptId,
    firstEvent: 0,
    eventCount: 0,
    failures: 0,
    reclaims: 0,
    maxAttempts: fresh.maxAttempts,
    backoffS: fresh.backoffS,
    maxBackoffS: fresh.maxBackoffS,
    startWithinS: fresh.startWithinS,
    attemptTimeoutS: fresh.attemptTimeoutS,
    topic: fresh.eventDelivery?.topic ?? null,
    ramMb: fresh.ramMb,
    vramMb: fresh.vramMb,
    cpu: fresh.cpu,
    gpuId: null,
    workerId: null,
    errorMessage: null,
    queuedAt: now,
    notBefore: null,
    assignedAt: null,
    startedAt: null,
    finishedAt: null,
    createdAt: now,
    updatedAt: now,
  };
}
