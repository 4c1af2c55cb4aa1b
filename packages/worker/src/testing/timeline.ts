import type { FakeRun } from './fake-service.js';

/** The types of the run's events, oldest first. */
export function types(run: FakeRun): string[] {
  return run.timeline.map(({ type }) => type);
}

/** The error_message of the run's last event; empty when it has none. */
export function errorMessage(run: FakeRun): string {
  const message = run.timeline.at(-1)?.payload?.['error_message'];
  return typeof message === 'string' ? message : '';
}
