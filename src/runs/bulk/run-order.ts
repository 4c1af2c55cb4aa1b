import { DomainError } from '../../common/http/errors/domain-error.js';
import type { Effect } from '../journal/pending-command.js';

/** The last event of a run that was handed in. */
interface Last {
  readonly effect: Promise<Effect>;
  /** Told of its failure once somebody asks. */
  order: { isBroken: boolean } | undefined;
}

/**
 * Keeps the events of each run of a request in their order, also when the service fails in the middle: what comes
 * behind an event that could not be recorded is held back. An event that was refused holds back nothing, as if each
 * had come alone.
 */
export class RunOrder {
  readonly #last = new Map<string, Last>();

  /** Whether the next event of the run has to be held back, to be asked when it is decided; undefined: it is the first. */
  next(runId: string): (() => boolean) | undefined {
    const last = this.#last.get(runId);
    if (!last) return undefined;
    const order = (last.order ??= { isBroken: false });
    void last.effect.catch((error: unknown) => {
      if (!isRefusal(error)) order.isBroken = true;
    });
    return () => order.isBroken;
  }

  /** Notes an event of the run that was handed in. */
  add(runId: string, effect: Promise<Effect>): void {
    this.#last.set(runId, { effect, order: this.#last.get(runId)?.order });
  }
}

/** True for what the run itself, or the rules, have against an event; sent again, it would be refused again. */
function isRefusal(error: unknown): boolean {
  return error instanceof DomainError && error.kind !== 'unavailable';
}
