import { addChunk, EMPTY_LOG, isKept, type LogRow, type LogState } from '../log-plan.js';
import type { LogChunk } from '../log-chunk.js';
import type { LogPoint } from '../log-point.js';
import { walkRow, type LogStep } from '../log-walk.js';

/** A log in memory: what the tables hold, by the same rules. */
export class MemoryLog {
  state: LogState = EMPTY_LOG;
  rows: LogRow[] = [];

  constructor(private readonly limitBytes: number) {}

  /** @returns why the chunk is refused; undefined when it was taken */
  add(chunk: LogChunk): string | undefined {
    const change = addChunk(this.state, chunk, this.limitBytes);
    if ('refusal' in change) return change.refusal;
    const { dropBelow, state } = change;
    const kept =
      dropBelow === null ? this.rows : this.rows.filter((row) => isKept(row, state.tail, dropBelow));
    this.rows = [...kept, ...change.rows];
    this.state = state;
    return undefined;
  }

  /** What is behind a place, so many steps at most. */
  read(from: LogPoint, limit: number): LogStep[] {
    const steps: LogStep[] = [];
    let place = from;
    for (const row of this.rows) {
      if (row.start.line + row.lines.length <= place.line && row.lines.length > 0) continue;
      for (const step of walkRow(row.start, row.lines, place)) {
        if (steps.length === limit) return steps;
        steps.push(step);
        place = step.behind;
      }
    }
    return steps;
  }
}
