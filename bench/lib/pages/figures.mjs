import { middleOf, quantile } from './stats.mjs';

/** Title and unit of the figures that benchmarks have in common; a benchmark's own `figures` come on top. */
const KNOWN = {
  perSecond: { title: 'a second', unit: '/s' },
  p50: { title: 'p50', unit: 'ms' },
  p90: { title: 'p90', unit: 'ms' },
  p95: { title: 'p95', unit: 'ms' },
  p99: { title: 'p99', unit: 'ms' },
  max: { title: 'longest', unit: 'ms' },
  cpuUs: { title: 'CPU', unit: 'µs' },
  cpuPercent: { title: 'CPU', unit: '%' },
  mb: { title: 'memory', unit: 'MB' },
};

/** Endings of names that tell a unit, for figures that nobody described. */
const ENDINGS = [
  [/^(p\d+|.+P\d+)$/, 'ms'],
  [/Us$/, 'µs'],
  [/Ms$/, 'ms'],
  [/(^m|M)b$/, 'MB'],
  [/(^p|P)ercent$/, '%'],
  [/PerSecond$/, '/s'],
  [/PerMinute$/, '/min'],
  [/S$|Seconds$/, 's'],
];

/**
 * Middles the rounds of a row: every number of the rounds becomes a figure.
 * @param row `{ label, rounds: [{ name: number }], ... }`
 * @param own titles and units of the benchmark's own figures, by name
 * @returns the row with `figures: { name: { median, spread, unit, title } }`
 */
export function withFigures(row, own = {}) {
  const names = new Set(row.rounds.flatMap((round) => Object.keys(round)));
  const figures = {};
  for (const name of names) {
    const values = row.rounds.map((round) => round[name]).filter((value) => typeof value === 'number');
    if (values.length === 0) continue;
    const known = { ...(KNOWN[name] ?? guess(name)), ...own[name] };
    figures[name] = { ...middleOf(values), ...known };
  }
  return { ...row, figures };
}

function guess(name) {
  const [, unit = ''] = ENDINGS.find(([pattern]) => pattern.test(name)) ?? [];
  const words = name.replaceAll(/([A-Z]+|\d+)/g, ' $1').toLowerCase();
  return { title: words.replace(/ (us|ms|mb|percent|per second|per minute|s|seconds)$/, ''), unit };
}

/** The row of this label. @throws RangeError when there is none */
export function rowOf(rows, label) {
  const row = rows.find((candidate) => candidate.label === label);
  if (row === undefined) throw new RangeError(`no row '${label}'`);
  return row;
}

/**
 * How many times row `a` is row `b` in a figure: the median over the rounds, of which those of the same number were
 * measured at about the same time. NaN when one of them was not measured.
 */
export function ratio(a, b, name = 'perSecond') {
  const count = Math.min(a?.rounds.length ?? 0, b?.rounds.length ?? 0);
  return quantile(
    Array.from({ length: count }, (_, n) => a.rounds[n][name] / b.rounds[n][name]),
    0.5,
  );
}

/** Of the rows, the one with the highest figure. */
export function better(rows, name = 'perSecond') {
  return rows
    .filter((row) => row?.figures[name] !== undefined)
    .toSorted((a, b) => b.figures[name].median - a.figures[name].median)[0];
}

/**
 * A line of the table of goals.
 * @param measured number that was measured; NaN when it was not
 * @param limit `{ atLeast }` or `{ atMost }`
 * @param unit stands behind the numbers, for example ` x`
 */
export function goalLine(goal, measured, limit, unit = ' x') {
  const [wanted, word] = 'atLeast' in limit ? [limit.atLeast, 'at least'] : [limit.atMost, 'at most'];
  const isMeasured = Number.isFinite(measured);
  const met = isMeasured ? ('atLeast' in limit ? measured >= wanted : measured <= wanted) : null;
  return {
    goal,
    target: `${word} ${wanted.toLocaleString('en-US')}${unit}`,
    measured: isMeasured ? `${shortened(measured)}${unit}` : null,
    met,
  };
}

function shortened(value) {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 });
}
