import { shown } from './stats.mjs';

/** `<!-- figure: RESULT; ROW; FIGURE -->text<!-- end of figure -->`; the text is generated. */
const MARK = /(<!-- figure: ([^;>]+);([^;>]+);([^;>]+) -->)[^]*?(<!-- end of figure -->)/g;

/** Whether a page states figures of results. */
export function hasFigures(text) {
  return text.search(MARK) >= 0;
}

/**
 * Fills the figures of a page in.
 * @param results by name: those of benchmarks, and `adr/NNN` for docs/adr/results/NNN.json
 */
export function fillFigures(text, results) {
  return text.replaceAll(MARK, (_, begin, result, row, figure, end) => {
    const found = results[result.trim()]?.rows.find(({ label }) => label === row.trim());
    return `${begin}${figureText(found?.figures[figure.trim()])}${end}`;
  });
}

function figureText(figure) {
  if (figure === undefined || !Number.isFinite(figure.median)) return '(not measured)';
  const { median, unit = '' } = figure;
  const space = unit === '' || unit.startsWith('/') ? '' : ' ';
  return `${shown(median)}${space}${unit}`;
}
