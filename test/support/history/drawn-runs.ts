import type { Dependency } from './history.js';
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
  readonly depends_on?: readonly Dependency[];
}

/** Attempts of 100, 200, 400 and then 500 MB. */
const GROWING = {
  constraints: { ram_mb: 100 },
  grow: { ram_mb: { factor: 2, max: 500, on: ['exit'] } },
};

/** As many of the runs that wait for others as are enough that some of each condition start. */
const NEEDS = ['ended', 'ended', 'completed', 'completed', 'failed'] as const;

/**
 * Options for a run of a load; most have none. The runs of a key have the same limit, so that it is never unclear.
 * @param known ids of runs that it may wait for
 */
export function drawOptions(random: SeededRandom, known: readonly string[]): DrawnFields {
  const limit = random.int(1, 3);
  const parents = random.chance(25) ? [random.pick(known), random.pick(known)] : [];
  const dependsOn = parents.flatMap((run) =>
    run === undefined ? [] : [{ run, when: random.pick(NEEDS) ?? 'ended' }],
  );
  return {
    ...(random.chance(15) && { selector: random.pick([WORKER_TAGS, ['gpu']]) }),
    ...(random.chance(25) && { concurrency: { key: `at-most-${limit}`, limit } }),
    ...(random.chance(10) && {
      start_at: new Date(Date.now() + random.int(0, LONGEST_DELAY_MS)).toISOString(),
    }),
    ...(random.chance(10) && { retry_on: ['exit'] }),
    ...(random.chance(20) && GROWING),
    ...(dependsOn.length > 0 && { depends_on: dependsOn }),
  };
}
