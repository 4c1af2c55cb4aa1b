import { oneLine, shownLine } from '@longshore/common/shown-text';
import { paint, type Colour } from './style.js';

/** A column of a table. */
export interface Column<T> {
  readonly title: string;
  text(row: T): string;
  colour?(row: T): Colour | undefined;
  /** Is shortened first on a narrow terminal. */
  readonly isElastic?: boolean;
}

/** Where the table is printed. */
export interface TableStyle {
  /** Undefined: lines may be as long as they need. */
  readonly columns: number | undefined;
  readonly colours: boolean;
}

const GAP = 2;
const NARROWEST = 8;

/** Lines of a table: a title and one line a row, each ending with a line feed. */
export function formatTable<T>(columns: readonly Column<T>[], rows: readonly T[], style: TableStyle): string {
  const cells = rows.map((row) => columns.map((column) => oneLine(column.text(row))));
  const wanted = columns.map((column, index) =>
    Math.max(width(column.title), ...cells.map((line) => width(line[index] ?? ''))),
  );
  const widths = fit(columns, wanted, style.columns);
  const lineOf = (texts: readonly string[], colourOf: (column: Column<T>) => Colour | undefined): string =>
    columns
      .map((column, index) => {
        const room = widths[index] ?? 0;
        const shown = cut(texts[index] ?? '', room);
        const isLast = index === columns.length - 1;
        return (
          paint(shown, colourOf(column), style.colours) +
          (isLast ? '' : ' '.repeat(room - width(shown) + GAP))
        );
      })
      .join('')
      .trimEnd();
  const head = lineOf(
    columns.map(({ title }) => title),
    () => 'bold',
  );
  const lines = rows.map((row, index) => lineOf(cells[index] ?? [], (column) => column.colour?.(row)));
  return [head, ...lines].map((line) => `${line}\n`).join('');
}

/** A name, its value if it has one, and the colour of the value. */
export type Field = readonly [name: string, value: string | undefined, colour?: Colour];

/** Lines `name  value`, whatever white space and colours a value holds; fields without a value are omitted. */
export function formatFields(fields: readonly Field[], colours: boolean): string {
  const shown = fields.flatMap(([name, value, colour]) =>
    value === undefined ? [] : [[name, shownLine(value.replaceAll(/\s/gu, ' ')), colour] as const],
  );
  const widest = Math.max(0, ...shown.map(([name]) => width(name)));
  return shown
    .map(
      ([name, value, colour]) =>
        `${paint(name.padEnd(widest), 'dim', colours)}  ${paint(value, colour, colours)}\n`,
    )
    .join('');
}

/** How long ago or until then, in the largest fitting unit: `12s`, `5m`, `3h`, `40d`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 120 * 60) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Time since then, `-` for never. @param t ISO 8601 */
export function ago(t: string | null | undefined, now: number = Date.now()): string {
  return t === null || t === undefined ? '-' : span(now - Date.parse(t));
}

/** A number of bytes, in the largest fitting unit: `950 B`, `12.3 MB`. */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), SIZES.length);
  return `${(bytes / 1000 ** power).toFixed(1)} ${SIZES[power - 1]}`;
}

const SIZES = ['kB', 'MB', 'GB', 'TB'];

function fit<T>(
  columns: readonly Column<T>[],
  wanted: readonly number[],
  room: number | undefined,
): readonly number[] {
  if (room === undefined) return wanted;
  const widths = [...wanted];
  let over = widths.reduce((sum, one) => sum + one, 0) + GAP * (columns.length - 1) - room;
  for (const [index, column] of [...columns.entries()].toReversed()) {
    if (over <= 0) break;
    if (column.isElastic !== true) continue;
    const before = widths[index] ?? 0;
    const after = Math.max(Math.min(before, NARROWEST), before - over);
    widths[index] = after;
    over -= before - after;
  }
  return widths;
}

function width(text: string): number {
  return Array.from(text).length;
}

function cut(text: string, room: number): string {
  if (width(text) <= room) return text;
  return `${Array.from(text)
    .slice(0, Math.max(room - 3, 0))
    .join('')}...`.slice(0, room);
}
