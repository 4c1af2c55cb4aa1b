import type { FinalEntry, FinalRun, FinalState, Violation } from './history.js';
import { countOutcomes, groupBy, type Indexed } from './index-history.js';

/** What the service records by itself; everything else on a timeline has somebody's mark. */
const OWN_ENTRIES: ReadonlySet<string> = new Set(['RETRIED', 'RECLAIMED', 'CANCELLED']);

/** Messages of the entries that cancel and retry leave. */
const COMMAND_MESSAGES = { cancel: 'Cancelled by user', retry: 'Manual retry' } as const;

/** Every acknowledged creation made one run, and nobody else made any. */
export function* checkCreates({ creates, runs }: Indexed): Iterable<Violation> {
  const byMark = groupBy([...runs.values()], ({ mark }) => mark ?? '');
  for (const [mark, made] of byMark) {
    const calls = creates.get(mark) ?? [];
    const [first] = made;
    if (calls.length === 0) {
      yield { name: 'unknown-run', detail: `nobody created run ${first?.id} (${mark})` };
    } else if (calls.every(({ outcome }) => outcome.kind === 'refused')) {
      yield { name: 'refused-create-recorded', detail: `run ${first?.id} of ${mark} was refused` };
    }
    if (made.length > 1) {
      yield { name: 'doubled-create', detail: `${mark} made ${made.map(({ id }) => id).join(' and ')}` };
    }
  }
  for (const [mark, calls] of creates) {
    const answered = calls.flatMap(({ outcome }) =>
      outcome.kind === 'answered' ? [outcome.value.runId] : [],
    );
    const ids = [...new Set(answered)];
    if (ids.length > 1) yield { name: 'doubled-create', detail: `${mark} was answered ${ids.join(' and ')}` };
    for (const id of ids) {
      if (runs.get(id)?.mark !== mark) {
        yield { name: 'lost-create', detail: `run ${id} of ${mark} was acknowledged` };
      }
    }
  }
}

/** Every acknowledged event is on its run's timeline once, a refused one nowhere, and each entry has a sender. */
export function* checkEvents({ events, runs }: Indexed): Iterable<Violation> {
  const found = new Map<string, number>();
  for (const run of runs.values()) {
    for (const entry of run.timeline) {
      if (entry.mark === null) {
        if (!OWN_ENTRIES.has(entry.type))
          yield { name: 'unknown-event', detail: `${nameOf(run, entry)} has no mark` };
        continue;
      }
      found.set(entry.mark, (found.get(entry.mark) ?? 0) + 1);
      const calls = events.get(entry.mark);
      const [call] = calls ?? [];
      if (calls === undefined || call === undefined) {
        yield { name: 'unknown-event', detail: `nobody sent ${nameOf(run, entry)}` };
      } else if (call.runId !== run.id || call.type !== entry.type) {
        yield {
          name: 'misplaced-event',
          detail: `${nameOf(run, entry)} was a ${call.type} for ${call.runId}`,
        };
      } else if (calls.every(({ outcome }) => outcome.kind === 'refused')) {
        yield { name: 'refused-event-recorded', detail: `${nameOf(run, entry)} was refused` };
      }
    }
  }
  for (const [mark, calls] of events) {
    const times = found.get(mark) ?? 0;
    const [{ runId, type } = { runId: '', type: '' }] = calls;
    if (times > 1) yield { name: 'doubled-event', detail: `${type} ${mark} of run ${runId}: ${times} times` };
    if (times === 0 && calls.some(({ outcome }) => outcome.kind === 'answered')) {
      yield { name: 'lost-event', detail: `${type} ${mark} of run ${runId} was acknowledged` };
    }
  }
}

/**
 * Cancels and retries carry no mark, so they are counted: at least those acknowledged, at most those that may be. The service itself may
 * open a run again that it had cancelled for another one.
 */
export function* checkCommands({ commands, runs }: Indexed): Iterable<Violation> {
  for (const run of runs.values()) {
    for (const kind of ['cancel', 'retry'] as const) {
      const sent = countOutcomes((commands.get(run.id) ?? []).filter((call) => call.kind === kind));
      const recorded = run.timeline.filter(
        ({ mark, msg }) => mark === null && msg === COMMAND_MESSAGES[kind],
      ).length;
      const detail = `run ${run.id}: ${recorded} of ${kind} recorded, ${sent.answered} acknowledged, ${sent.maybe} unknown`;
      if (recorded < sent.answered) yield { name: 'lost-command', detail };
      const own = kind === 'retry' ? countReopenings(run) : 0;
      if (recorded > sent.answered + sent.maybe + own) yield { name: 'unknown-command', detail };
    }
  }
}

function countReopenings({ timeline }: FinalRun): number {
  return timeline.filter(({ type }, i) => type === 'RETRIED' && timeline[i - 1]?.cause === 'dependency')
    .length;
}

/** PATCHes leave nothing on the timeline; the audit log has every one of them. */
export function* checkPatches({ patches, runs }: Indexed, { audit }: FinalState): Iterable<Violation> {
  const kept = groupBy(audit, ({ runId }) => runId);
  for (const id of runs.keys()) {
    const sent = countOutcomes(patches.get(id) ?? []);
    const found = kept.get(id)?.length ?? 0;
    const detail = `run ${id}: ${found} in the audit log, ${sent.answered} acknowledged, ${sent.maybe} unknown`;
    if (found < sent.answered) yield { name: 'lost-patch', detail };
    if (found > sent.answered + sent.maybe) yield { name: 'unknown-patch', detail };
  }
}

function nameOf(run: FinalRun, { id, type, mark }: FinalEntry): string {
  return `${type} ${mark ?? ''} (entry ${id} of run ${run.id})`;
}
