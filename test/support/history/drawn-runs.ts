import type { SeededRandom } from './seeded-random.js';

/** Tags of the workers that may have the runs with a selector. */
export const WORKER_TAGS = ['gpu', 'eu'] as const;

const LONGEST_DELAY_MS = 2_000;

/** What a run says beside what every run does, as in the body of its creation. */
export interface DrawnFields {
  readonly selector?: readonly string[];
  readonly concurrency?: { readonly key: string; readonly limit: number };
  readonly start_at?: string;
  readonly retry_on?: readonly string[];
  readonly grow?: object;
  readonly constraints?: { readonly ram_mb: number };
}

/** Attempts of 100, 200, 400 and then 500 MB. */
const GROWING = {
  constraints: { ram_mb: 100 },
  grow: { ram_mb: { factor: 2, max: 500, on: ['exit'] } },
};

/** Options for a run of a load; most have none. The runs of a key have the same limit, so that it is never unclear. */
export function drawOptions(random: SeededRandom): DrawnFields {
  const limit = random.int(1, 3);
  return {
    ...(random.chance(15) && { selector: random.pick([WORKER_TAGS, ['gpu']]) }),
    ...(random.chance(25) && { concurrency: { key: `at-most-${limit}`, limit } }),
    ...(random.chance(10) && {
      start_at: new Date(Date.now() + random.int(0, LONGEST_DELAY_MS)).toISOString(),
    }),
    ...(random.chance(10) && { retry_on: ['exit'] }),
    ...(random.chance(20) && GROWING),
  };
}
