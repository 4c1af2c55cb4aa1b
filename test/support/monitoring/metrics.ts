/** What a Prometheus histogram has counted so far. */
export interface HistogramTotals {
  readonly count: number;
  readonly sum: number;
}

/** Reads a histogram's totals out of a text in the Prometheus format. @throws Error when it is not there */
export function histogramTotals(text: string, name: string): HistogramTotals {
  return { count: sample(text, `${name}_count`), sum: sample(text, `${name}_sum`) };
}

/** What was counted between two looks. */
export function since(earlier: HistogramTotals, later: HistogramTotals): HistogramTotals {
  return { count: later.count - earlier.count, sum: later.sum - earlier.sum };
}

function sample(text: string, name: string): number {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
  if (line === undefined) throw new Error(`there is no metric ${name}`);
  return Number(line.slice(name.length + 1));
}
