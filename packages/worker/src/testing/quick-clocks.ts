import { SYSTEM_CLOCK, type Clock } from '../process/clock.js';

/** The clock of the system, with pauses of some milliseconds. */
export const QUICK_CLOCK: Clock = {
  ...SYSTEM_CLOCK,
  sleep: (ms, signal) => SYSTEM_CLOCK.sleep(Math.min(ms, 5), signal),
};

/** The clock of the system, on which nothing is due for a minute. */
export const SILENT_CLOCK: Clock = {
  ...SYSTEM_CLOCK,
  sleep: (_ms, signal) => SYSTEM_CLOCK.sleep(60_000, signal),
};
