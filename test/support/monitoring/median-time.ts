const TRIES = 5;

/** The median of five measured times in milliseconds, so that one disturbed try does not decide. */
export async function medianTime(measure: () => Promise<number>): Promise<number> {
  const times: number[] = [];
  while (times.length < TRIES) times.push(await measure());
  return times.toSorted((left, right) => left - right)[Math.floor(TRIES / 2)] ?? Infinity;
}
