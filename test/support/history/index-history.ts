import type { Call, CommandCall, FinalRun, FinalState, Outcome, State } from './history.js';

type CallOf<K extends Call['kind']> = Extract<Call, { readonly kind: K }>;

/** A history by what the checks look things up by. Built in one pass. */
export interface Indexed {
  /** Creations by mark: a creation and its repetitions. */
  readonly creates: ReadonlyMap<string, readonly CallOf<'create'>[]>;
  /** Events by mark: an event and its repetitions. */
  readonly events: ReadonlyMap<string, readonly CallOf<'event'>[]>;
  readonly commands: ReadonlyMap<string, readonly CommandCall[]>;
  readonly patches: ReadonlyMap<string, readonly CallOf<'patch'>[]>;
  /** States that PATCHes which were not refused may have put runs into, by run. */
  readonly patchedStates: ReadonlyMap<string, ReadonlySet<State>>;
  readonly reads: ReadonlyMap<string, readonly CallOf<'read'>[]>;
  readonly claims: readonly CallOf<'claim'>[];
  /** Heartbeats by worker, in order of their start. */
  readonly heartbeats: ReadonlyMap<string, readonly CallOf<'heartbeat'>[]>;
  readonly runs: ReadonlyMap<string, FinalRun>;
}

/** Sorts a history by its kinds. */
export function indexHistory(history: readonly Call[], { runs }: FinalState): Indexed {
  const of = <K extends Call['kind']>(kind: K): CallOf<K>[] =>
    history.filter((call): call is CallOf<K> => call.kind === kind);
  const commands = history.filter(
    (call): call is CommandCall => call.kind === 'cancel' || call.kind === 'retry',
  );
  const patches = groupBy(of('patch'), ({ runId }) => runId);
  return {
    creates: groupBy(of('create'), ({ mark }) => mark),
    events: groupBy(of('event'), ({ mark }) => mark),
    commands: groupBy(commands, ({ runId }) => runId),
    patches,
    patchedStates: new Map(
      [...patches].flatMap(([runId, calls]) => {
        const states = calls.flatMap(({ state, outcome }) =>
          outcome.kind === 'refused' ? [] : (state ?? []),
        );
        return states.length === 0 ? [] : [[runId, new Set(states)]];
      }),
    ),
    reads: groupBy(of('read'), ({ runId }) => runId),
    claims: of('claim'),
    heartbeats: groupBy(
      of('heartbeat').toSorted((a, b) => a.startedAt - b.startedAt),
      ({ worker }) => worker,
    ),
    runs: new Map(runs.map((run) => [run.id, run])),
  };
}

/** The items by their keys, in their order. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}

/** How often each kind of outcome occurs. */
export function countOutcomes(
  calls: readonly { readonly outcome: Outcome<unknown> }[],
): Record<Outcome<unknown>['kind'], number> {
  const counts = { answered: 0, refused: 0, maybe: 0 };
  for (const { outcome } of calls) counts[outcome.kind] += 1;
  return counts;
}
