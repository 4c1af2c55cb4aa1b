/**
 * How thoroughly tests search. `npm test` (tier fast) uses the smallest numbers, `npm run test:all` those that fit in 45
 * minutes, and `npm run test:soak` the full ones with random seeds.
 */
const TIER = process.env['LONGSHORE_TEST_TIER'] ?? 'fast';

/** The number of the tier; `soak` is four times `all` unless given. */
export function atDepth(numbers: {
  readonly fast: number;
  readonly all: number;
  readonly soak?: number;
}): number {
  if (TIER === 'fast') return numbers.fast;
  return TIER === 'soak' ? (numbers.soak ?? numbers.all * 4) : numbers.all;
}

/** TEST_SEED, a random seed in the tier `soak`, otherwise the usual one. */
export function testSeed(usual: number): number {
  const given = process.env['TEST_SEED'];
  if (given !== undefined) return Number(given);
  return TIER === 'soak' ? Math.floor(Math.random() * 2 ** 31) : usual;
}
