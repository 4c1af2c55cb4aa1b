/** The value below which the given part (0 to 1) of the values lies; NaN for none. */
export function quantile(values, part) {
  if (values.length === 0) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

/** The middle of the values, and the distance between the least and the greatest. */
export function middleOf(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return { median: quantile(values, 0.5), spread: most - least, least, most };
}

/** A number as people read it. */
export function shown(value) {
  if (!Number.isFinite(value)) return '-';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
