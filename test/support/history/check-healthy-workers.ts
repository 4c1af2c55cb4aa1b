import type { FinalEntry, FinalRun, HeartbeatCall, Rules, Violation } from './history.js';
import type { Indexed } from './index-history.js';

/**
 * A worker that tries to heartbeat in time never loses a run that it speaks of. Heartbeats that failed count for being
 * in time: when the service is away, that is not the worker's fault. In time means at least every half timeout.
 */
export function* checkHealthyWorkers({ runs, heartbeats }: Indexed, rules: Rules): Iterable<Violation> {
  for (const run of runs.values()) {
    for (const entry of run.timeline) {
      if (entry.type !== 'RECLAIMED' || entry.worker === null) continue;
      const sent = recentHeartbeats(heartbeats.get(entry.worker) ?? [], entry.t, rules);
      if (isInTime(sent, entry.t, rules) && speaksOf(sent, run, entry, rules)) {
        const detail = `${entry.worker} lost attempt ${entry.attempt} of run ${run.id} though it reported in time`;
        yield { name: 'healthy-worker-lost-run', detail };
      }
    }
  }
}

/** Those that started within the timeout before the time. */
function recentHeartbeats(
  sent: readonly HeartbeatCall[],
  time: number,
  { workerTimeoutMs }: Rules,
): readonly HeartbeatCall[] {
  return sent.slice(firstFrom(sent, time - workerTimeoutMs), firstFrom(sent, time));
}

function isInTime(sent: readonly HeartbeatCall[], time: number, { workerTimeoutMs }: Rules): boolean {
  const moments = [time - workerTimeoutMs, ...sent.map(({ startedAt }) => startedAt), time];
  return moments.every((moment, i) => moment - (moments[i - 1] ?? moment) <= workerTimeoutMs / 2);
}

/**
 * Whether the service could know that the worker has the run: it was assigned within the last timeout, or it was named
 * in a heartbeat that was answered. When none was answered, it is enough that all of them name it: the worker cannot be
 * held to have left it out. An attempt that an admin set back has the time of its last assignment, which may be later.
 */
function speaksOf(
  sent: readonly HeartbeatCall[],
  run: FinalRun,
  entry: FinalEntry,
  { workerTimeoutMs }: Rules,
): boolean {
  const assignedAt = run.attempts[entry.attempt - 1]?.assignedAt ?? null;
  if (assignedAt !== null && assignedAt <= entry.t && assignedAt > entry.t - workerTimeoutMs) return true;
  const answered = sent.filter(({ outcome, endedAt }) => outcome.kind === 'answered' && endedAt <= entry.t);
  const names = ({ running }: HeartbeatCall): boolean => running.includes(run.id);
  return answered.length > 0 ? answered.some(names) : sent.every(names);
}

/** Index of the first call that started at the time or later. */
function firstFrom(sent: readonly HeartbeatCall[], time: number): number {
  let low = 0;
  let high = sent.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sent[middle]?.startedAt ?? Infinity) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
