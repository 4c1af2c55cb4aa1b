import { toItemError, type ItemError } from '../../common/http/errors/error-response.js';
import type { Effect } from '../journal/pending-command.js';

/** An item that was handed in to the journal. */
export interface HandedIn<R> {
  readonly effect: Promise<Effect>;
  /** What the item is answered with. @throws DomainError when the effect cannot be shown */
  readonly answer: (effect: Effect) => R;
}

/**
 * Carries out the items of a bulk request. All are handed in before anything else can happen, so they go into the
 * journal in their order and, where they fit, into one commit; each is answered by itself, at its place.
 * @param handIn reads an item and hands it in, or throws its refusal
 * @throws the first item's error when all of them failed because the service cannot work now
 */
export async function carryOut<I, R extends { readonly status: number }>(
  items: readonly I[],
  handIn: (item: I, place: number) => HandedIn<R>,
): Promise<(R | ItemError)[]> {
  const effects: Promise<Effect>[] = [];
  const answers = items.map((item, place) => {
    try {
      const { effect, answer } = handIn(item, place);
      const at = effects.push(effect) - 1;
      return (settled: Settled): R => answer(effectOf(settled[at]));
    } catch (error) {
      return (): never => {
        throw error;
      };
    }
  });
  const settled = await Promise.allSettled(effects);
  const failures: unknown[] = [];
  const results = answers.map((answer): R | ItemError => {
    try {
      return answer(settled);
    } catch (error) {
      failures.push(error);
      return toItemError(error);
    }
  });
  if (results.every(({ status }) => status === 503)) throw failures[0];
  return results;
}

type Settled = readonly PromiseSettledResult<Effect>[];

function effectOf(settled: Settled[number] | undefined): Effect {
  if (settled?.status === 'fulfilled') return settled.value;
  throw settled?.reason;
}
