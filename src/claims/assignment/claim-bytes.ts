import type { LockedRun } from '../../runs/scheduling-strategy.js';
import { bytesOfGroup } from '../../runs/storage/run-views.js';

/**
 * The candidates whose answers are within the limits, in the order of each claim. An answer may be larger than
 * `maxAnswerBytes` if it has one run only. Each claim gets its first run before one gets a second, so that only a group
 * whose first runs exceed its bytes has claims that get none.
 */
export function withinBytes<C extends { readonly claim: number; readonly run: Pick<LockedRun, 'bytes'> }>(
  candidates: readonly C[],
  maxAnswerBytes: number,
): C[] {
  const seen = new Set<number>();
  const first = candidates.filter(({ claim }) => !seen.has(claim) && seen.add(claim));
  const firstOnes = new Set(first);
  const ordered = [...first, ...candidates.filter((candidate) => !firstOnes.has(candidate))];
  const answers = new Map<number, number>();
  const full = new Set<number>();
  let ofGroup = 0;
  return ordered.filter(({ claim, run: { bytes } }) => {
    const answer = answers.get(claim) ?? 0;
    const isWithin =
      (answer === 0 || answer + bytes <= maxAnswerBytes) &&
      (ofGroup === 0 || ofGroup + bytes <= bytesOfGroup(maxAnswerBytes));
    // A later, smaller run must not overtake one that the claim leaves in the queue.
    if (!isWithin) full.add(claim);
    if (full.has(claim)) return false;
    answers.set(claim, answer + bytes);
    ofGroup += bytes;
    return true;
  });
}
