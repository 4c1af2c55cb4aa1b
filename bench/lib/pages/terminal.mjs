/* oxlint-disable no-console -- what the terminal shows */
import { shown } from './stats.mjs';

/** Prints the rows of a result, figure beside figure, and what its goals say. */
export function printResult({ rows }, goals) {
  const width = Math.max(...rows.map(({ label }) => label.length)) + 2;
  for (const { label, note, figures } of rows) {
    const cells = Object.values(figures).map(
      ({ title, median, spread, unit }) =>
        `${title} ${shown(median)}${unitText(unit)} ± ${shown(spread / 2)}`,
    );
    console.log(`${label.padEnd(width)} ${cells.join('   ')}${note === undefined ? '' : `   (${note})`}`);
  }
  for (const { goal, target, measured, met } of goals) {
    const verdict = met === null ? 'not measured' : met ? 'met' : 'MISSED';
    console.log(`goal: ${goal}: ${target}; ${measured ?? '-'}: ${verdict}`);
  }
}

function unitText(unit) {
  return unit === '' || unit.startsWith('/') || unit === '%' ? unit : ` ${unit}`;
}
