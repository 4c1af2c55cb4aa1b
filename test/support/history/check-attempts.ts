import { isEnded } from './fold.js';
import type { FinalAttempt, FinalRun, Violation } from './history.js';
import type { Indexed } from './index-history.js';

/**
 * One worker for an attempt, attempts one after the other, each with the RAM that the failures before it say, and reports by the
 * worker that has the attempt only.
 */
export function* checkAttempts(indexed: Indexed): Iterable<Violation> {
  yield* checkClaims(indexed);
  for (const run of indexed.runs.values()) {
    yield* checkOrder(run);
    yield* checkAmounts(run);
    // A PATCH may take an attempt from one worker and hand it to another.
    if (!indexed.patchedStates.has(run.id)) yield* checkReporters(run, indexed);
  }
}

function* checkClaims({ claims, runs, patchedStates }: Indexed): Iterable<Violation> {
  const handed = new Map<string, { readonly worker: string; readonly key: string | null }>();
  for (const { worker, key, outcome } of claims) {
    for (const { runId, attempt } of outcome.kind === 'answered' ? outcome.value : []) {
      if (patchedStates.has(runId)) continue;
      const place = `attempt ${attempt} of run ${runId}`;
      const earlier = handed.get(place);
      if (earlier !== undefined && earlier.worker !== worker) {
        yield { name: 'handed-to-two-workers', detail: `${place}: to ${earlier.worker} and ${worker}` };
      } else if (earlier !== undefined && (key === null || earlier.key !== key)) {
        yield { name: 'handed-twice', detail: `${place}: to ${worker} by two claims` };
      }
      handed.set(place, { worker, key });
      const recorded = runs.get(runId)?.attempts[attempt - 1];
      if (recorded?.worker !== worker) {
        const detail = `${place}: handed to ${worker}, recorded for ${recorded?.worker}`;
        yield { name: 'claim-not-recorded', detail };
      }
    }
  }
}

function* checkOrder({ id, attempt, attempts, state }: FinalRun): Iterable<Violation> {
  const numbers = attempts.map((each) => each.attempt);
  if (attempts.length !== attempt || numbers.some((number, i) => number !== i + 1)) {
    const detail = `run ${id} is at attempt ${attempt} and lists ${numbers.join(', ')}`;
    yield { name: 'attempt-hole', detail };
  }
  const live = attempts.filter((each) => !isEnded(each.state));
  if (live.length > 1 || (live.length === 1 && live[0] !== attempts.at(-1))) {
    const detail = `run ${id}: attempts ${live.map((each) => each.attempt).join(', ')} have not ended`;
    yield { name: 'two-live-attempts', detail };
  }
  const current = attempts.at(-1);
  if (current !== undefined && current.state !== state) {
    yield { name: 'impossible-state', detail: `run ${id} is ${state}, its current attempt ${current.state}` };
  }
  for (const [i, later] of attempts.entries()) {
    const earlier = attempts[i - 1];
    if (earlier !== undefined && overlap(earlier, later)) {
      const detail = `run ${id}: ${later.worker} had attempt ${later.attempt} before ${earlier.worker} lost ${earlier.attempt}`;
      yield { name: 'held-by-two-workers', detail };
    }
  }
}

function* checkAmounts({ id, growth, attempts }: FinalRun): Iterable<Violation> {
  if (growth === null) return;
  const { factor, max, on } = growth;
  let ramMb = growth.ramMb;
  for (const each of attempts) {
    if (each.ramMb !== ramMb) {
      const detail = `run ${id}: attempt ${each.attempt} has ${each.ramMb} MB, not ${ramMb}`;
      yield { name: 'wrong-amount', detail };
    }
    if (each.state === 'FAILED' && on.includes(each.cause ?? '')) ramMb = Math.min(max, ramMb * factor);
  }
}

function overlap(earlier: FinalAttempt, later: FinalAttempt): boolean {
  return later.assignedAt !== null && (earlier.finishedAt ?? Infinity) > later.assignedAt;
}

function* checkReporters({ id, timeline, attempts }: FinalRun, { events }: Indexed): Iterable<Violation> {
  for (const entry of timeline) {
    const { type, attempt, mark } = entry;
    const holder = attempts[attempt - 1]?.worker ?? null;
    const reporter = events.get(mark ?? '')?.[0]?.reporter ?? null;
    const place = `${type} of attempt ${attempt} of run ${id}, which ${holder} has`;
    if (reporter !== null && (reporter.worker !== holder || reporter.attempt !== attempt)) {
      const detail = `${place}: reported by ${reporter.worker} for attempt ${reporter.attempt}`;
      yield { name: 'report-by-another-worker', detail };
    } else if (entry.worker !== null && entry.worker !== holder) {
      yield { name: 'report-by-another-worker', detail: `${place}: names ${entry.worker}` };
    }
  }
}
