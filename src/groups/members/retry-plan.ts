import { isTerminal } from '../../runs/machine/run-state.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../runs/machine/run.js';
import type { FoundEdge, FoundMember } from '../group.repository.js';

/** Causes of cancellations that come from the failure of a member. */
const CAUSES: ReadonlySet<string> = new Set(['dependency', 'max_failed', 'group']);

/** What a retry of a group does. */
export interface RetryPlan {
  /** By the id of a run that is opened again, how many others it waits for; null: none. */
  readonly waits: ReadonlyMap<string, number | null>;
  /** Ids of dependencies that count as open again. */
  readonly edges: readonly string[];
}

/**
 * Which members are opened again: those that FAILED, and what that had cancelled; or all. A member whose dependency on a run
 * outside of them stays broken stays cancelled.
 * @param before those do not count that have ended since, but for what the end of another member has cancelled; null: all count
 */
export function planRetry(
  members: readonly FoundMember[],
  edges: readonly (FoundEdge & { readonly id: string })[],
  { only, before }: { readonly only: 'failed' | 'all'; readonly before: Date | null },
): RetryPlan {
  const byChild = new Map<string, (FoundEdge & { readonly id: string })[]>();
  for (const edge of edges) {
    const own = byChild.get(edge.child) ?? [];
    byChild.set(edge.child, own);
    own.push(edge);
  }
  const opened = new Set<string>();
  const isOpened = (parentId: string | null): boolean => parentId !== null && opened.has(parentId);
  let left = members.filter(({ state, attempt }) => isTerminal(state) && attempt < MAX_ATTEMPTS_OF_A_RUN);
  for (let known = -1; known !== opened.size;) {
    known = opened.size;
    left = left.filter(({ id, state, cause, finishedAt }) => {
      const isDue =
        before === null || cause === 'dependency' || (finishedAt !== null && finishedAt <= before);
      const isCaused = state === 'CANCELLED' && cause !== null && CAUSES.has(cause);
      const isWanted = only === 'all' || state === 'FAILED' || isCaused;
      const isBroken = (byChild.get(id) ?? []).some(
        ({ outcome, parentId }) => outcome === 'broken' && !isOpened(parentId),
      );
      if (!isDue || !isWanted || isBroken) return true;
      opened.add(id);
      return false;
    });
  }
  const reopened: string[] = [];
  const waits = new Map<string, number | null>();
  for (const id of opened) {
    const own = byChild.get(id) ?? [];
    const again = own.filter(({ parentId }) => isOpened(parentId));
    reopened.push(...again.map((edge) => edge.id));
    const open =
      again.length + own.filter(({ parentId, outcome }) => outcome === null && !isOpened(parentId)).length;
    waits.set(id, open > 0 ? open : null);
  }
  return { waits, edges: reopened };
}
