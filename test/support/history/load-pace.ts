import { setTimeout as sleep } from 'node:timers/promises';
import type { Quota } from './load-client.js';

/** So many runs, spread evenly over the time. @param share how much of the time is over; 1 is all of it */
export function evenQuota(runs: number, share: () => number): Quota & { readonly taken: number } {
  let taken = 0;
  return {
    get taken() {
      return taken;
    },
    take: () => {
      if (taken >= runs * Math.min(1, share())) return false;
      taken += 1;
      return true;
    },
    putBack: () => {
      taken -= 1;
    },
  };
}

/** Gives up after a while without a word: what has not ended is then found by the checker. */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  patienceMs: number,
): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (performance.now() < deadline && !(await condition())) await sleep(200);
}
