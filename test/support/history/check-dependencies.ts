import type { Dependency, FinalRun, Violation } from './history.js';
import type { Indexed } from './index-history.js';

/** An end of a run, by its timeline. */
interface End {
  readonly state: string;
  readonly t: number;
}

/**
 * A run that waits for others is assigned after they have ended as it needs it, and cancelled for one only after that has ended otherwise.
 * A PATCH leaves nothing on the timeline, so patched runs are left out, as what waits and as what is waited for. A client may retry a
 * run that was cancelled without what it waited for: only what precedes the first cancellation is looked at.
 */
export function* checkDependencies({ creates, runs, patchedStates }: Indexed): Iterable<Violation> {
  for (const run of runs.values()) {
    const dependsOn = creates.get(run.mark ?? '')?.[0]?.dependsOn ?? [];
    if (patchedStates.has(run.id)) continue;
    const known = dependsOn.filter((dependency) => !patchedStates.has(dependency.run));
    const endsOfParents = new Map(known.map(({ run: id }) => [id, endsOf(runs.get(id))]));
    yield* checkStart(run, known, endsOfParents);
    yield* checkCancel(run, dependsOn, endsOfParents);
  }
}

function* checkStart(
  { id, timeline, attempts }: FinalRun,
  dependsOn: readonly Dependency[],
  ends: ReadonlyMap<string, readonly End[]>,
): Iterable<Violation> {
  const last = timeline.find(({ type }) => type === 'CANCELLED')?.attempt ?? Infinity;
  const first = attempts.find(({ attempt, assignedAt }) => attempt <= last && assignedAt !== null);
  if (!first?.assignedAt) return;
  for (const dependency of dependsOn) {
    const met = ends.get(dependency.run)?.find(({ state }) => isMet(dependency, state));
    if (met && met.t <= first.assignedAt) continue;
    const detail = `run ${id}: attempt ${first.attempt} was assigned before run ${dependency.run} had ${dependency.when}`;
    yield { name: 'before-dependency', detail };
  }
}

function* checkCancel(
  { id, timeline }: FinalRun,
  dependsOn: readonly Dependency[],
  ends: ReadonlyMap<string, readonly End[]>,
): Iterable<Violation> {
  for (const { type, t, cause, parent } of timeline) {
    if (type !== 'CANCELLED' || cause !== 'dependency') continue;
    const own = dependsOn.filter(({ run }) => run === parent);
    const known = ends.get(parent ?? '');
    const isBroken = own.some(
      (dependency) => known?.some((end) => end.t <= t && !isMet(dependency, end.state)) ?? true,
    );
    if (isBroken) continue;
    const needs = own.map(({ when }) => when).join(', ');
    yield { name: 'wrongly-cancelled', detail: `run ${id}: for run ${parent}, which it needs as ${needs}` };
  }
}

/** The ends of a run, oldest first. An attempt that is followed by another one of itself is none. */
function endsOf(run: FinalRun | undefined): End[] {
  return (run?.timeline ?? []).flatMap(({ type, attempt, t }, i) => {
    const next = run?.timeline[i + 1];
    switch (type) {
      case 'COMPLETED':
      case 'CANCELLED':
        return { state: type, t };
      case 'FAILED':
        return next?.type === 'RETRIED' && next.force === false ? [] : { state: type, t };
      case 'RECLAIMED':
        return (next ?? run)?.attempt === attempt ? { state: 'FAILED', t } : [];
      default:
        return [];
    }
  });
}

function isMet({ when }: Dependency, state: string): boolean {
  return when === 'ended' || when === state.toLowerCase();
}
