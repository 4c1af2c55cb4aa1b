import { gapBetween, type LogGap, type LogPoint } from './log-point.js';
import type { LogLine } from './log-shapes.js';

/** One thing that a reader comes by, and the place behind it. */
export type LogStep = (
  { readonly line: LogLine; readonly number: number; readonly bytes: number } | { readonly gap: LogGap }
) & { readonly behind: LogPoint };

/**
 * The way through a row for a reader that has come to a place: what is missing before the row, then each of its lines
 * that is not before the place.
 * @param start before the first line of the row
 */
export function* walkRow(start: LogPoint, lines: readonly LogLine[], from: LogPoint): Generator<LogStep> {
  const gap = gapBetween(from, start);
  if (gap !== null) yield { gap, behind: start };
  let { line: number, bytes: before } = start;
  for (const line of lines) {
    const bytes = Buffer.byteLength(line.text);
    before += bytes;
    if (number >= from.line) {
      const behind = { line: number + 1, bytes: before, unknownGaps: start.unknownGaps };
      yield { line, number, bytes, behind };
    }
    number += 1;
  }
}
