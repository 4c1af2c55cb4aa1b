import type { Writable } from 'node:stream';
import { colourOfState, oneLine, paint } from './style.js';

const BAR_CELLS = 24;
const BACK_TO_START = '\r\u001b[2K';

/** What the progress line tells. */
export interface Progress {
  readonly state: string;
  /** 0-100. */
  readonly progress: number;
  /** Stands behind the bar. */
  readonly detail: string;
}

/** The one line at the bottom of a terminal that is drawn over; elsewhere it is not there. */
export class LiveLine {
  private content: Progress | undefined;
  private isShown = false;

  constructor(
    private readonly screen: Writable & { readonly columns?: number },
    private readonly style: { readonly isLive: boolean; readonly colours: boolean },
  ) {}

  /** Whether it can be seen at all. */
  get isLive(): boolean {
    return this.style.isLive;
  }

  set(content: Progress): void {
    this.hide();
    this.content = content;
    this.show();
  }

  /** Takes it away for good. */
  clear(): void {
    this.hide();
    this.content = undefined;
  }

  /** Takes it away until {@link show}, so that something can be printed. */
  hide(): void {
    if (this.isShown) this.screen.write(BACK_TO_START);
    this.isShown = false;
  }

  show(): void {
    if (!this.style.isLive || this.content === undefined) return;
    this.screen.write(progressLine(this.content, this.screen.columns || 80, this.style.colours));
    this.isShown = true;
  }
}

/** State, bar and detail, shorter than the terminal is wide: a line that wraps cannot be drawn over. */
export function progressLine(
  { state, progress, detail }: Progress,
  columns: number,
  colours: boolean,
): string {
  const filled = Math.round((Math.min(Math.max(progress, 0), 100) / 100) * BAR_CELLS);
  const colour = colourOfState(state);
  const parts: readonly (readonly [string, typeof colour])[] = [
    [`${state.padEnd(9)} `, colour],
    ['#'.repeat(filled), colour],
    ['.'.repeat(BAR_CELLS - filled), 'dim'],
    [` ${`${progress} %`.padStart(5)}  ${oneLine(detail)}`, undefined],
  ];
  let room = Math.max(columns - 1, 0);
  return parts
    .map(([text, paintedIn]) => {
      const shown = text.slice(0, room);
      room -= shown.length;
      return paint(shown, paintedIn, colours);
    })
    .join('');
}
