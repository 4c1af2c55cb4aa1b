import type { ContainerTimes } from './event-types.js';
import type { Run } from './run.js';

/** When an attempt ran: fields of the run. */
type RunTimes = Pick<Run, 'startedAt'> & { readonly finishedAt: Date };

export const NO_TIMES: ContainerTimes = { startedAt: null, finishedAt: null };

/** The start that a worker reports, not before the assignment and not after `t`. */
export function startWithin({ assignedAt }: Run, startedAt: Date, t: Date): Date {
  return within(startedAt, assignedAt ?? t, t);
}

/**
 * The times of an attempt that ends at `t`, or has ended before: those of its container if they are reported, within the
 * assignment and `t`. A container does not end before its start.
 */
export function timesOf(run: Run, { startedAt, finishedAt }: ContainerTimes, t: Date): RunTimes {
  const start = startedAt === null ? run.startedAt : startWithin(run, startedAt, t);
  const first = start ?? run.assignedAt ?? t;
  return { startedAt: start, finishedAt: finishedAt === null ? t : within(finishedAt, first, t) };
}

function within(time: Date, from: Date, to: Date): Date {
  if (time > to) return to;
  return time < from ? from : time;
}
