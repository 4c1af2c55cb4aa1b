import { isTerminal } from '../machine/run-state.js';
import type { CreatedRun, Run } from '../machine/run.js';
import { TooManyToCancel } from '../run.errors.js';
import type { WantedKey } from '../storage/open-runs.js';
import type { PendingCommand } from './command.js';

/** Runs that a new one may cancel, at most. */
const MAX_CANCELLED = 1_000;

/** The keys whose limits decide about new runs of a group. */
export function wantedKeys(commands: readonly PendingCommand[]): WantedKey[] {
  const wanted = new Map<string, WantedKey>();
  for (const pending of commands) {
    if (pending.kind !== 'create') continue;
    const { concurrencyOnLimit: onLimit, concurrencyKey: key, concurrencyLimit: limit } = pending.fresh;
    if (onLimit === null || onLimit === 'queue' || key === null || limit === null) continue;
    const { counted = 0, readFrom = null } = wanted.get(key) ?? {};
    wanted.set(key, {
      key,
      counted: Math.max(counted, limit + MAX_CANCELLED),
      readFrom: onLimit === 'skip' ? readFrom : Math.min(readFrom ?? limit, limit),
    });
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

  /** What happens to a run before it is created. @throws TooManyToCancel */
  decide(run: CreatedRun): LimitDecision {
    const { concurrencyOnLimit: onLimit, concurrencyKey: name, concurrencyLimit: limit } = run;
    const key = name === null ? undefined : this.#keys.get(name);
    if (key === undefined || limit === null || (onLimit !== 'skip' && onLimit !== 'cancel_oldest'))
      return { effect: 'none' };
    const excess = key.count + 1 - limit;
    if (excess <= 0) return { effect: 'none' };
    const open = `${key.count} ${key.count === 1 ? 'run' : 'runs'} with the concurrency key '${name}' had not ended, and its limit is ${limit}`;
    if (onLimit === 'skip') return { effect: 'skip', reason: `Skipped: ${open}` };
    if (excess > MAX_CANCELLED) throw new TooManyToCancel(open, MAX_CANCELLED);
    const oldest = [...key.known.values()].toSorted(
      (a, b) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1),
    );
    return {
      effect: 'cancel',
      runs: oldest.slice(0, excess),
      reason: `Cancelled for the newer run ${run.id}: ${open}`,
    };
  }

  #know(run: Run) {
    const key = run.concurrencyKey === null ? undefined : this.#keys.get(run.concurrencyKey);
    if (isTerminal(run.state)) key?.known.delete(run.id);
    else key?.known.set(run.id, run);
    return key;
  }
}
