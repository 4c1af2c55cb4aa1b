import type { Entry, FinalRun, Violation } from './history.js';
import type { Indexed } from './index-history.js';

/** Whatever was acknowledged before a read began is in its answer, whichever process gave it; nothing is ever rewritten. */
export function* checkReads(indexed: Indexed): Iterable<Violation> {
  const { reads, runs, creates } = indexed;
  const created = new Map<string, number>();
  for (const calls of creates.values()) {
    for (const { outcome, endedAt } of calls) {
      if (outcome.kind !== 'answered') continue;
      const { runId } = outcome.value;
      created.set(runId, Math.min(endedAt, created.get(runId) ?? Infinity));
    }
  }
  const writes = acknowledgedWrites(indexed);
  for (const [runId, calls] of reads) {
    const run = runs.get(runId);
    const acknowledged = (writes.get(runId) ?? []).toSorted((a, b) => a.at - b.at);
    let next = 0;
    let length = 0;
    for (const { startedAt, outcome, actor } of calls.toSorted((a, b) => a.startedAt - b.startedAt)) {
      for (; (acknowledged[next]?.at ?? Infinity) <= startedAt; next += 1) {
        length = Math.max(length, acknowledged[next]?.length ?? 0);
      }
      if (outcome.kind === 'refused') {
        if (outcome.status === 404 && (created.get(runId) ?? Infinity) <= startedAt) {
          yield { name: 'stale-read', detail: `${actor} did not find run ${runId}, which was acknowledged` };
        }
      } else if (outcome.kind === 'answered') {
        const detail = `${actor} saw ${outcome.value.length} entries of run ${runId}`;
        if (outcome.value.length < length) {
          yield { name: 'stale-read', detail: `${detail}, of which ${length} were acknowledged` };
        }
        if (!isBeginning(outcome.value, run)) yield { name: 'history-rewritten', detail };
      }
    }
  }
}

/** By run: when an event was acknowledged, and how long the timeline was with it. */
function acknowledgedWrites({ runs, events }: Indexed): Map<string, { at: number; length: number }[]> {
  const writes = new Map<string, { at: number; length: number }[]>();
  for (const run of runs.values()) {
    const found: { at: number; length: number }[] = [];
    for (const [i, { mark }] of run.timeline.entries()) {
      const ends = (events.get(mark ?? '') ?? []).flatMap(({ outcome, endedAt }) =>
        outcome.kind === 'answered' ? [endedAt] : [],
      );
      if (ends.length > 0) found.push({ at: Math.min(...ends), length: i + 1 });
    }
    writes.set(run.id, found);
  }
  return writes;
}

function isBeginning(entries: readonly Entry[], run: FinalRun | undefined): boolean {
  return entries.every((entry, i) => {
    const final = run?.timeline[i];
    return (
      final?.id === entry.id && final.type === entry.type && final.mark === entry.mark && final.t === entry.t
    );
  });
}
