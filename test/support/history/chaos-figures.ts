import type { Injected } from './chaos-faults.js';
import type { Call, FinalState } from './history.js';

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
  /** By the fault's name. */
  readonly faults: Readonly<Record<string, Effect>>;
}

/** What a fault did to those who write; times in milliseconds, the worst of all times. */
export interface Effect {
  readonly times: number;
  /** Longest time without an acknowledged write from its beginning to the recovery. */
  readonly silenceMs: number;
  /** From its end to the next acknowledged write. */
  readonly recoveryMs: number;
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
    faults: effectsOf(history, injected),
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

function effectsOf(history: readonly Call[], injected: readonly Injected[]): ChaosFigures['faults'] {
  const writes = history
    .filter(
      ({ kind, outcome }) => !['heartbeat', 'claim', 'read'].includes(kind) && outcome.kind === 'answered',
    )
    .map(({ endedAt }) => endedAt)
    .toSorted((a, b) => a - b);
  const effects: Record<string, Effect> = {};
  for (const { name, from, to, recoveredAt } of injected) {
    const moments = [from, ...writes.filter((at) => at > from && at < recoveredAt), recoveredAt];
    const silence = Math.max(...moments.map((at, i) => at - (moments[i - 1] ?? at)));
    const { times, silenceMs, recoveryMs } = effects[name] ?? { times: 0, silenceMs: 0, recoveryMs: 0 };
    effects[name] = {
      times: times + 1,
      silenceMs: Math.max(silenceMs, Math.round(silence)),
      recoveryMs: Math.max(recoveryMs, Math.round(recoveredAt - to)),
    };
  }
  return effects;
}
