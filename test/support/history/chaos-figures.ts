import type { Injected } from './chaos-faults.js';
import type { Call, FinalState } from './history.js';

/** How long after a fault its effects are looked for, in milliseconds. */
const AFTERMATH_MS = 3000;

/** What one run under faults came to. */
export interface ChaosFigures {
  readonly runs: number;
  readonly events: number;
  readonly attempts: number;
  readonly requests: number;
  readonly answered: number;
  readonly refused: number;
  /** Refusals of what is never refused: creations, claims, heartbeats, retries, patches, reads. */
  readonly refusedWrongly: number;
  readonly maybe: number;
  /** Requests without an answer whose creation or event is there all the same. */
  readonly maybeButDone: number;
  readonly reclaims: number;
  /** From a worker's last heartbeat to the loss on the timeline, in milliseconds. */
  readonly slowestReclaimMs: number;
  /** By fault: how often, and the longest time without an acknowledged write around it, in milliseconds. */
  readonly faults: Readonly<Record<string, { readonly times: number; readonly longestSilenceMs: number }>>;
}

/** Sums a run up. */
export function sumUp(
  history: readonly Call[],
  { runs }: FinalState,
  injected: readonly Injected[],
): ChaosFigures {
  const count = (kind: Call['outcome']['kind']): number =>
    history.filter(({ outcome }) => outcome.kind === kind).length;
  const timeline = runs.flatMap((run) => run.timeline);
  const losses = timeline.filter(({ type }) => type === 'RECLAIMED');
  return {
    runs: runs.length,
    events: timeline.length,
    attempts: runs.reduce((sum, run) => sum + run.attempts.length, 0),
    requests: history.length,
    answered: count('answered'),
    refused: count('refused'),
    refusedWrongly: history.filter(
      ({ kind, outcome }) => outcome.kind === 'refused' && kind !== 'event' && kind !== 'cancel',
    ).length,
    maybe: count('maybe'),
    maybeButDone: countDone(history, runs),
    reclaims: losses.length,
    slowestReclaimMs: slowestReclaim(history, losses),
    faults: silences(history, injected),
  };
}

function countDone(history: readonly Call[], runs: FinalState['runs']): number {
  const there = new Set(runs.flatMap((run) => [run.mark, ...run.timeline.map(({ mark }) => mark)]));
  return history.filter(
    (call) =>
      (call.kind === 'create' || call.kind === 'event') &&
      call.outcome.kind === 'maybe' &&
      there.has(call.mark),
  ).length;
}

function slowestReclaim(
  history: readonly Call[],
  losses: readonly { readonly t: number; readonly worker: string | null }[],
): number {
  const heartbeats = history.filter((call) => call.kind === 'heartbeat');
  const waits = losses.map(({ t, worker }) => {
    const last = heartbeats.findLast((call) => call.worker === worker && call.startedAt < t);
    return last === undefined ? 0 : Math.round(t - last.startedAt);
  });
  return Math.max(0, ...waits);
}

function silences(history: readonly Call[], injected: readonly Injected[]): ChaosFigures['faults'] {
  const writes = history
    .filter(
      ({ kind, outcome }) => !['heartbeat', 'claim', 'read'].includes(kind) && outcome.kind === 'answered',
    )
    .map(({ endedAt }) => endedAt)
    .toSorted((a, b) => a - b);
  const found: Record<string, { times: number; longestSilenceMs: number }> = {};
  for (const { name, from, to } of injected) {
    const end = to + AFTERMATH_MS;
    const next = writes.find((at) => at >= end) ?? end;
    const moments = [from, ...writes.filter((at) => at > from && at < end), next];
    const silence = Math.max(0, ...moments.map((at, i) => at - (moments[i - 1] ?? at)));
    const sum = (found[name] ??= { times: 0, longestSilenceMs: 0 });
    sum.times += 1;
    sum.longestSilenceMs = Math.max(sum.longestSilenceMs, Math.round(silence));
  }
  return found;
}
