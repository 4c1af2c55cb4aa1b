import { emptyFold, foldEntry, isEnded, type Bounds } from './fold.js';
import type { FinalRun, Rules, State, Violation } from './history.js';
import type { Indexed } from './index-history.js';

/** Timelines are dense and in time, the state of each run is what its timeline comes to, and every run has ended. */
export function* checkTimelines(
  { runs, patchedStates }: Indexed,
  { maxReclaims }: Rules,
): Iterable<Violation> {
  for (const run of runs.values()) {
    const patched = patchedStates.get(run.id) ?? new Set<State>();
    yield* checkIndexes(run);
    const { maxAttempts, retryOn } = run;
    yield* checkFold(run, { maxAttempts, retryOn, maxReclaims, patched });
    if (!isEnded(run.state)) yield { name: 'run-not-ended', detail: `run ${run.id} is ${run.state}` };
  }
}

function* checkIndexes({ id, timeline }: FinalRun): Iterable<Violation> {
  const hole = timeline.findIndex((entry, i) => entry.id !== i);
  if (hole >= 0) {
    yield { name: 'timeline-hole', detail: `run ${id}: entry ${hole} has the index ${timeline[hole]?.id}` };
  }
  const back = timeline.findIndex((entry, i) => entry.t < (timeline[i - 1]?.t ?? 0));
  if (back >= 0) yield { name: 'time-went-back', detail: `run ${id}: at entry ${back}` };
}

function* checkFold(run: FinalRun, bounds: Bounds): Iterable<Violation> {
  let folded = emptyFold(bounds);
  for (const [i, entry] of run.timeline.entries()) {
    const before = folded;
    const step = foldEntry(before, entry, run.timeline[i + 1], bounds);
    if (typeof step === 'string') {
      const from = [...before.states].join(' or ');
      const detail = `run ${run.id}: ${entry.type} of attempt ${entry.attempt} as entry ${i}, after attempt ${before.attempt} was ${from}`;
      yield { name: step, detail };
      return;
    }
    folded = step;
  }
  const possible: ReadonlySet<State> = folded.states;
  if (!possible.has(run.state)) {
    const detail = `run ${run.id} is ${run.state}, its timeline says ${[...possible].join(' or ')}`;
    yield { name: 'impossible-state', detail };
  }
  if (run.attempt !== folded.attempt) {
    const detail = `run ${run.id} is at attempt ${run.attempt}, its timeline at ${folded.attempt}`;
    yield { name: 'attempt-hole', detail };
  }
  if (run.reclaims !== folded.reclaims) {
    const detail = `run ${run.id} counts ${run.reclaims} losses, its timeline ${folded.reclaims}`;
    yield { name: 'impossible-state', detail };
  }
}
