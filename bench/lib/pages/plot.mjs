import { shown } from './stats.mjs';

const WIDTH = 760;
const FONT = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"';
const STYLE = `<style>
  .back { fill: #ffffff } .text { fill: #1f2328 } .soft { fill: #59636e } .bar { fill: #4a7fc1 }
  .line { stroke: #d1d9e0 } .mark { stroke: #1f2328 }
  .s0 { stroke: #2f6db5; fill: #2f6db5 } .s1 { stroke: #b8561f; fill: #b8561f } .s2 { stroke: #2c8a5b; fill: #2c8a5b }
  .s3 { stroke: #8a4fb0; fill: #8a4fb0 } .s4 { stroke: #a33a55; fill: #a33a55 } .s5 { stroke: #6b6f2a; fill: #6b6f2a }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } .text { fill: #e6edf3 } .soft { fill: #9198a1 } .bar { fill: #5b94d6 }
    .line { stroke: #3d444d } .mark { stroke: #e6edf3 }
    .s0 { stroke: #6cabf0; fill: #6cabf0 } .s1 { stroke: #f0965a; fill: #f0965a } .s2 { stroke: #5ac08f; fill: #5ac08f }
    .s3 { stroke: #c390e6; fill: #c390e6 } .s4 { stroke: #ee7f9a; fill: #ee7f9a } .s5 { stroke: #bfc46a; fill: #bfc46a }
  }
</style>`;
const DASHES = ['', '6 4', '2 3', '10 4 2 4', '4 2', '1 4'];

const BAR = { right: 150, top: 44, pitch: 24, height: 14, perCharacter: 6.8, mostLeft: 420 };

/**
 * Horizontal bars from zero, one a row, each with the span of its rounds.
 * @param rows with `figures`; those without the figure are left out
 * @returns the SVG, or null when there is nothing to show
 */
export function barPlot({ title, figure }, rows) {
  const there = rows.filter(({ figures }) => Number.isFinite(figures[figure]?.median));
  if (there.length === 0) return null;
  const values = there.map((row) => valuesOf(row, figure));
  const longest = Math.max(...there.map(({ label }) => label.length));
  const left = Math.min(BAR.mostLeft, Math.ceil(longest * BAR.perCharacter) + 24);
  const scale = (WIDTH - left - BAR.right) / Math.max(...values.flat(), Number.MIN_VALUE);
  const at = (value) => fixed(left + Math.max(0, value) * scale);
  const bars = there.map(({ label, figures }, n) => {
    const { median, unit } = figures[figure];
    const y = BAR.top + n * BAR.pitch;
    const middle = fixed(y + BAR.height / 2);
    const [low, high] = [Math.min(...values[n]), Math.max(...values[n])].map(at);
    return [
      text(left - 8, y + BAR.height - 3, label, 'text', 'end'),
      `<rect class="bar" x="${left}" y="${y}" width="${fixed(at(median) - left)}" height="${BAR.height}" rx="2"/>`,
      `<path class="mark" d="M${low} ${middle}H${high}M${low} ${y + 3}V${y + BAR.height - 3}M${high} ${y + 3}V${y + BAR.height - 3}"/>`,
      text(Number(high) + 8, y + BAR.height - 3, `${shown(median)}${withSpace(unit)}`, 'soft', 'start'),
    ].join('');
  });
  return frame(title, BAR.top + there.length * BAR.pitch + 8, bars);
}

const LINES = { left: 80, right: 24, top: 44, height: 220, legend: 20 };

/**
 * Lines over a logarithmic axis, one for each series.
 * @param plot `x(row)` a number above 0, `series(row)` a name; `xTitle`
 * @returns the SVG, or null when there is nothing to show
 */
export function linePlot({ title, figure, x, series, xTitle = '' }, rows) {
  const points = rows
    .filter(({ figures }) => Number.isFinite(figures[figure]?.median))
    .map((row) => ({ at: x(row), value: row.figures[figure].median, name: series(row), row }))
    .filter(({ at }) => at > 0);
  if (points.length === 0) return null;
  const { unit } = points[0].row.figures[figure];
  const xs = [...new Set(points.map(({ at }) => at))].toSorted((a, b) => a - b);
  const [first, last] = [Math.log(xs[0]), Math.log(xs.at(-1))];
  const top = Math.max(...points.map(({ value }) => value), Number.MIN_VALUE);
  const bottom = LINES.top + LINES.height;
  const toX = (at) =>
    fixed(
      LINES.left +
        (last === first ? 0.5 : (Math.log(at) - first) / (last - first)) * (WIDTH - LINES.left - LINES.right),
    );
  const toY = (value) => fixed(bottom - (Math.max(0, value) / top) * LINES.height);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const y = toY(part * top);
    return (
      `<path class="line" d="M${LINES.left} ${y}H${WIDTH - LINES.right}"/>` +
      text(LINES.left - 8, Number(y) + 4, `${shown(part * top)}${withSpace(unit)}`, 'soft', 'end')
    );
  });
  const ticks = xs.map((at) => text(toX(at), bottom + 18, shortNumber(at), 'soft', 'middle'));
  const names = [...new Set(points.map(({ name }) => name))];
  const lines = names.map((name, n) => {
    const own = points.filter((point) => point.name === name).toSorted((a, b) => a.at - b.at);
    const path = own.map(({ at, value }) => `${toX(at)} ${toY(value)}`).join('L');
    const dots = own.map(
      ({ at, value }) => `<circle class="s${n % 6}" cx="${toX(at)}" cy="${toY(value)}" r="3"/>`,
    );
    const y = bottom + 50 + n * LINES.legend;
    return (
      `<path class="s${n % 6}" style="fill: none" stroke-width="2" stroke-dasharray="${DASHES[n % 6]}" d="M${path}"/>${dots.join('')}` +
      `<path class="s${n % 6}" stroke-width="2" stroke-dasharray="${DASHES[n % 6]}" d="M${LINES.left} ${y - 4}H${LINES.left + 36}"/>` +
      text(LINES.left + 46, y, name, 'text', 'start')
    );
  });
  const caption = text(WIDTH - LINES.right, bottom + 34, xTitle, 'soft', 'end');
  return frame(title, bottom + 50 + names.length * LINES.legend, [...grid, ...ticks, caption, ...lines]);
}

function valuesOf({ figures }, figure) {
  const { least, median, most } = figures[figure];
  return [least, median, most];
}

function frame(title, height, parts) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}" ${FONT} font-size="12">`,
    STYLE,
    `<rect class="back" width="${WIDTH}" height="${height}" rx="6"/>`,
    `<text class="text" x="16" y="26" font-size="14" font-weight="600">${escaped(title)}</text>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function text(x, y, content, kind, anchor) {
  return `<text class="${kind}" x="${fixed(Number(x))}" y="${fixed(Number(y))}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

function fixed(value) {
  return String(Number(value.toFixed(1)));
}

function withSpace(unit) {
  return unit === '' || unit.startsWith('/') || unit === '%' ? unit : ` ${unit}`;
}

function shortNumber(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toFixed(1))} M`;
  return value >= 1e3 ? `${Number((value / 1e3).toFixed(1))} k` : String(value);
}

function escaped(content) {
  return String(content).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
