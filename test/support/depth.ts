/**
 * How thoroughly tests search. `npm test` (tier fast) uses the smallest numbers, `npm run test:all` larger ones, and
 * `npm run test:soak` the full ones with random seeds.
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

/** Rounds of a search that finds more the longer it goes on: TEST_ROUNDS in the tier `soak`, otherwise the number of the tier. */
export function testRounds(numbers: { readonly fast: number; readonly all: number }): number {
  const given = process.env['TEST_ROUNDS'];
  return TIER === 'soak' && given !== undefined ? Number(given) : atDepth(numbers);
}

/** TEST_SEED, a random seed in the tier `soak`, otherwise the usual one. */
export function testSeed(usual: number): number {
  const given = process.env['TEST_SEED'];
  if (given !== undefined) return Number(given);
  return TIER === 'soak' ? Math.floor(Math.random() * 2 ** 31) : usual;
}
