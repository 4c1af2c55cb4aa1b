import type { FinalEntry, State } from './history.js';

/** What a fold of a timeline knows beside the state. */
interface Counts {
  readonly attempt: number;
  readonly failures: number;
  readonly reclaims: number;
  /** Of the current attempt. */
  readonly progress: number;
}

/** How far a timeline has been folded. Several states where a PATCH may or may not have come between. */
export interface Folded extends Counts {
  readonly states: ReadonlySet<State>;
}

/** The bounds of a run. */
export interface Bounds {
  readonly maxAttempts: number;
  /** Causes of failures that are retried; null: all. */
  readonly retryOn: readonly string[] | null;
  readonly maxReclaims: number;
  /** States that somebody may have patched it into, at any time. */
  readonly patched: ReadonlySet<State>;
}

/** Why an entry cannot be where it is. */
export type FoldFault =
  | 'impossible-transition'
  | 'failures-over-bound'
  | 'reclaims-over-bound'
  | 'attempt-hole';

const IN_EXECUTION: readonly State[] = ['ASSIGNED', 'RUNNING'];
const LIVE: readonly State[] = ['PENDING', ...IN_EXECUTION];
const TERMINAL: readonly State[] = ['COMPLETED', 'FAILED', 'CANCELLED'];

/** From which states a type of entry may come, and what it makes of them; types that are not named change nothing. */
const STEPS: Readonly<Record<string, { readonly from: readonly State[]; readonly to: State }>> = {
  STARTED: { from: IN_EXECUTION, to: 'RUNNING' },
  COMPLETED: { from: IN_EXECUTION, to: 'COMPLETED' },
  FAILED: { from: IN_EXECUTION, to: 'FAILED' },
  RECLAIMED: { from: IN_EXECUTION, to: 'FAILED' },
  CANCELLED: { from: LIVE, to: 'CANCELLED' },
};

/** A run before its first entry. */
export function emptyFold({ patched }: Bounds): Folded {
  return {
    states: closure(['PENDING'], patched),
    attempt: 1,
    failures: 0,
    reclaims: 0,
    progress: 0,
  };
}

/**
 * Goes one entry further, by the rules of decisions.md section 3 (written down here a second time, so that a mistake
 * in the service's own table shows).
 * @param next the entry behind it: an automatic retry follows its FAILED at once
 */
export function foldEntry(
  folded: Folded,
  entry: FinalEntry,
  next: FinalEntry | undefined,
  bounds: Bounds,
): Folded | FoldFault {
  if (entry.attempt !== folded.attempt) return 'attempt-hole';
  if (entry.type === 'RETRIED') return foldRetry(folded, entry, bounds);
  const step = STEPS[entry.type];
  const from = [...folded.states].filter((state) => (step?.from ?? LIVE).includes(state));
  if (from.length === 0) return 'impossible-transition';
  if (step === undefined) {
    const progress = entry.type === 'PROGRESS' ? Number(entry.msg) : folded.progress;
    return { ...folded, progress, states: closure(from, bounds.patched) };
  }
  const states = closure([step.to], bounds.patched);
  if (entry.type === 'FAILED') {
    const failures = folded.failures + 1;
    const isRetried = bounds.retryOn?.includes(entry.cause ?? 'error') ?? true;
    if (failures >= bounds.maxAttempts || !isRetried) return { ...folded, failures, states };
    if (next?.type !== 'RETRIED' || next.force !== false) return 'impossible-transition';
    // Only the retry behind it may come now.
    return { ...folded, failures, states: new Set<State>(['PENDING']) };
  }
  if (entry.type === 'RECLAIMED') {
    const reclaims = folded.progress > 0 ? 1 : folded.reclaims + 1;
    const goesOn = next !== undefined && next.attempt > entry.attempt;
    if (reclaims > bounds.maxReclaims) {
      return goesOn ? 'reclaims-over-bound' : { ...folded, reclaims, states };
    }
    return {
      attempt: folded.attempt + 1,
      failures: folded.failures,
      reclaims,
      progress: 0,
      states: closure(['PENDING'], bounds.patched),
    };
  }
  return { ...folded, states };
}

function foldRetry(folded: Folded, entry: FinalEntry, bounds: Bounds): Folded | FoldFault {
  if (entry.force !== true) {
    if (folded.failures >= bounds.maxAttempts) return 'failures-over-bound';
    if (![...folded.states].some((state) => LIVE.includes(state))) return 'impossible-transition';
  }
  const budget = entry.force === true ? { failures: 0, reclaims: 0 } : {};
  const states = closure(['PENDING'], bounds.patched);
  return { ...folded, ...budget, attempt: folded.attempt + 1, progress: 0, states };
}

/** The states and those that a claim or a PATCH, which leave no entry, make of them. */
function closure(states: Iterable<State>, patched: ReadonlySet<State>): Set<State> {
  const reached = new Set<State>([...states, ...patched]);
  if (reached.has('PENDING')) reached.add('ASSIGNED');
  return reached;
}

/** True when the run is locked. */
export function isEnded(state: State): boolean {
  return TERMINAL.includes(state);
}
