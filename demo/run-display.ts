import type { WriteStream } from 'node:tty';
import type { RunUpdate } from './run-follower.js';
import { eventLine, statusLine, type LineStyle, type RunStatus } from './run-lines.js';

const PLAIN_COLUMNS = 160;

/** Prints timelines as they grow; on a terminal with a status line for every run below them. */
export class RunDisplay {
  private readonly runs = new Map<string, RunStatus>();
  /** Number of status lines on the terminal. */
  private drawn = 0;

  /** @param live whether lines can be overwritten */
  constructor(
    private readonly out: Pick<WriteStream, 'write' | 'columns'>,
    private readonly style: LineStyle,
    private readonly live: boolean,
  ) {}

  /** Shows an update of a run. */
  show(name: string, { state, progress, events }: RunUpdate): void {
    const before = this.runs.get(name);
    const same = before?.state === state && before.progress === progress;
    this.runs.set(name, { name, state, progress });
    if (same && events.length === 0) return;
    const columns = this.live ? this.out.columns : PLAIN_COLUMNS;
    this.redraw(events.map((event) => eventLine(name, event, columns, this.style)));
  }

  /** Prints the final status lines. */
  finish(): void {
    if (!this.live) this.print(this.statusLines());
    this.drawn = 0;
  }

  private redraw(fresh: readonly string[]): void {
    if (!this.live) {
      this.print(fresh);
      return;
    }
    const status = this.statusLines();
    const back = this.drawn === 0 ? '' : `\u001b[${this.drawn}A\r\u001b[0J`;
    this.out.write(`${back}${[...fresh, '', ...status].join('\n')}\n`);
    this.drawn = status.length + 1;
  }

  private statusLines(): string[] {
    return [...this.runs.values()].map((run) => statusLine(run, this.style));
  }

  private print(lines: readonly string[]): void {
    if (lines.length > 0) this.out.write(`${lines.join('\n')}\n`);
  }
}
