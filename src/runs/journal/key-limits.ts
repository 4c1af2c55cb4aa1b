import { isTerminal } from '../machine/run-state.js';
import type { NewRun, Run } from '../machine/run.js';
import { TooManyToCancel } from '../run.errors.js';
import type { WantedKey } from '../storage/open-runs.js';
import type { PendingCommand } from './command.js';

/** Runs that a new one may cancel, at most. */
const MAX_CANCELLED = 1_000;

type KeyedRun = Pick<NewRun, 'concurrencyOnLimit' | 'concurrencyKey' | 'concurrencyLimit'>;

/** The keys whose limits decide about new runs of a group. */
export function wantedKeys(commands: readonly PendingCommand[]): WantedKey[] {
  const wanted = new Map<string, WantedKey>();
  const want = ({ concurrencyOnLimit: onLimit, concurrencyKey: key, concurrencyLimit: limit }: KeyedRun) => {
    if (onLimit === null || onLimit === 'queue' || key === null || limit === null) return;
    const { counted = 0, created = 0, readFrom = null } = wanted.get(key) ?? {};
    wanted.set(key, {
      key,
      counted: Math.max(counted, limit + MAX_CANCELLED),
      created: created + 1,
      readFrom: onLimit === 'skip' ? readFrom : Math.min(readFrom ?? limit, limit),
    });
  };
  for (const pending of commands) {
    if (pending.kind === 'create') want(pending.fresh);
    if (pending.kind === 'batch') for (const { fresh } of pending.batch.creations ?? []) want(fresh);
  }
  return [...wanted.values()];
}

/** What the limit of its key does to a new run. */
export type LimitDecision =
  | { readonly effect: 'none' }
  | { readonly effect: 'skip'; readonly reason: string }
  | { readonly effect: 'cancel'; readonly runs: readonly Run[]; readonly reason: string };

/** The open runs of the wanted keys, as the commands of a group change them one after another. */
export class KeyLimits {
  readonly #keys: ReadonlyMap<string, { count: number; readonly known: Map<string, Run> }>;

  /** @param counts by key @param found runs of any key, those that a new run may cancel among them */
  constructor(counts: ReadonlyMap<string, number>, found: Iterable<Run>) {
    this.#keys = new Map([...counts].map(([key, count]) => [key, { count, known: new Map() }]));
    if (this.#keys.size > 0) for (const run of found) this.#know(run);
  }

  /** Notes a change of a run. @param before undefined: the run is new */
  note(before: Run | undefined, run: Run): void {
    const key = this.#know(run);
    if (!key) return;
    const wasOpen = before !== undefined && !isTerminal(before.state);
    key.count += Number(!isTerminal(run.state)) - Number(wasOpen);
  }

  /** @throws TooManyToCancel for a run that is not to be created */
  check(run: KeyedRun): void {
    const { excess, open } = this.#excess(run);
    if (run.concurrencyOnLimit === 'cancel_oldest' && excess > MAX_CANCELLED)
      throw new TooManyToCancel(open, MAX_CANCELLED);
  }

  /** What happens to a run that is created next; one that would cancel too many others is skipped. */
  decide(run: KeyedRun & Pick<NewRun, 'id'>): LimitDecision {
    const { excess, open, known } = this.#excess(run);
    if (excess <= 0) return { effect: 'none' };
    if (run.concurrencyOnLimit === 'skip' || excess > MAX_CANCELLED)
      return { effect: 'skip', reason: `Skipped: ${open}` };
    const oldest = known.toSorted(
      (a, b) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1),
    );
    return {
      effect: 'cancel',
      runs: oldest.slice(0, excess),
      reason: `Cancelled for the newer run ${run.id}: ${open}`,
    };
  }

  /** By how many runs the run would exceed the limit of its key; 0: it may be created, or waits. */
  #excess({ concurrencyOnLimit: onLimit, concurrencyKey: name, concurrencyLimit: limit }: KeyedRun) {
    const key = name === null || onLimit === null || onLimit === 'queue' ? undefined : this.#keys.get(name);
    if (key === undefined || limit === null) return { excess: 0, open: '', known: [] };
    const { count } = key;
    const open = `${count} ${count === 1 ? 'run' : 'runs'} with the concurrency key '${name}' had not ended, and its limit is ${limit}`;
    return { excess: count + 1 - limit, open, known: [...key.known.values()] };
  }

  #know(run: Run) {
    const key = run.concurrencyKey === null ? undefined : this.#keys.get(run.concurrencyKey);
    if (isTerminal(run.state)) key?.known.delete(run.id);
    else key?.known.set(run.id, run);
    return key;
  }
}
