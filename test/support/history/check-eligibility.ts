import type { FinalRun, Violation } from './history.js';
import { groupBy, type Indexed } from './index-history.js';

/** By how much the clocks of client and database may differ. */
const CLOCKS_MS = 20;

/** A time in which an attempt certainly was in execution. */
interface Execution {
  readonly runId: string;
  readonly key: string;
  readonly limit: number;
  readonly from: number;
  readonly to: number;
}

/**
 * A run is assigned to a worker that has its tags, not before its start, and while fewer runs of its key than its limit
 * are in execution. A PATCH may put a run into execution and take it out again, so patched runs are left out.
 */
export function* checkEligibility({ claims, runs, patchedStates }: Indexed): Iterable<Violation> {
  const answeredAt = new Map<string, number>();
  for (const { worker, tags, endedAt, outcome } of claims) {
    for (const { runId, attempt } of outcome.kind === 'answered' ? outcome.value : []) {
      const place = `attempt ${attempt} of run ${runId}`;
      answeredAt.set(place, Math.min(endedAt, answeredAt.get(place) ?? Infinity));
      const missing = (runs.get(runId)?.selector ?? []).filter((tag) => !tags.includes(tag));
      if (missing.length > 0) {
        yield { name: 'ineligible-worker', detail: `${place}: to ${worker} without ${missing.join(', ')}` };
      }
    }
  }
  const executions: Execution[] = [];
  for (const run of runs.values()) {
    if (patchedStates.has(run.id)) continue;
    yield* checkStart(run);
    executions.push(...executionsOf(run, answeredAt));
  }
  for (const [key, ofKey] of groupBy(executions, (execution) => execution.key)) yield* checkLimit(key, ofKey);
}

function* checkStart({ id, startAt, attempts }: FinalRun): Iterable<Violation> {
  for (const { attempt, assignedAt } of attempts) {
    if (startAt === null || assignedAt === null || assignedAt >= startAt) continue;
    const detail = `attempt ${attempt} of run ${id}: assigned ${startAt - assignedAt} ms before its start`;
    yield { name: 'before-start', detail };
  }
}

/**
 * From the answer to the claim, which came after the commit, to the end as the service recorded it, which came before
 * the commit. The times of transactions that ran at once say nothing about their order.
 */
function executionsOf(
  { id, concurrency, attempts }: FinalRun,
  answeredAt: ReadonlyMap<string, number>,
): readonly Execution[] {
  return attempts.flatMap(({ attempt, finishedAt }) => {
    const from = answeredAt.get(`attempt ${attempt} of run ${id}`);
    const to = (finishedAt ?? Infinity) - CLOCKS_MS;
    return concurrency === null || from === undefined || from >= to
      ? []
      : [{ runId: id, ...concurrency, from, to }];
  });
}

/** The run that was assigned last found fewer than its limit, so at any time there are no more than the largest limit. */
function* checkLimit(key: string, executions: readonly Execution[]): Iterable<Violation> {
  let present: Execution[] = [];
  for (const execution of executions.toSorted((a, b) => a.from - b.from)) {
    present = [...present.filter(({ to }) => to > execution.from), execution];
    const limit = Math.max(...present.map((each) => each.limit));
    if (present.length <= limit) continue;
    const others = present.map(({ runId }) => runId).join(', ');
    const detail = `run ${execution.runId}: ${present.length} runs of key ${key} at once, not ${limit}: ${others}`;
    yield { name: 'over-limit', detail };
  }
}
