import type { RunView } from '../service-api/service-api.js';

const TERMINAL: ReadonlySet<string> = new Set(['COMPLETED', 'FAILED', 'CANCELLED']);

/**
 * Judges from the service's own words whether an attempt is still this worker's to execute.
 * @param attempt null when it is not known yet
 * @returns why it is not, in one sentence; null when it is
 */
export function whyNotOurs(run: RunView, workerId: string, attempt: number | null): string | null {
  if (attempt !== null && run.currentAttempt !== attempt) {
    return `the run is at attempt ${run.currentAttempt}, this was attempt ${attempt}`;
  }
  if (TERMINAL.has(run.state)) return `the run is ${run.state}`;
  if (run.workerId === null) return 'the run is assigned to no worker';
  if (run.workerId !== workerId) return `the run is assigned to worker '${run.workerId}'`;
  return null;
}
