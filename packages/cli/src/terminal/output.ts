import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { stringifyJson } from '@longshore/common/json/json-text';
import { oneLine, plainText } from '@longshore/common/shown-text';
import { readWarnings } from '@longshore/common/warnings';
import { paint, safeText, type Colour } from './style.js';

/** A stream that may be a terminal. */
export interface Screen extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  hasColors?(): boolean;
}

/** Results go to standard output, everything else to standard error. A progress line stays below both. */
export class Output {
  readonly live: LiveLine;
  /** Whether results may be coloured: NO_COLOR, FORCE_COLOR and TERM are honoured. */
  readonly colours: boolean;
  private isLineOpen = false;

  constructor(
    private readonly out: Screen,
    private readonly err: Screen,
    env: NodeJS.ProcessEnv,
  ) {
    this.colours = hasColours(out);
    const isLive = err.isTTY === true && env['TERM'] !== 'dumb';
    this.live = new LiveLine(err, { isLive, colours: hasColours(err) });
  }

  /** Whether results go to a terminal. */
  get isTerminal(): boolean {
    return this.out.isTTY === true;
  }

  /** Width of the terminal; undefined elsewhere. */
  get columns(): number | undefined {
    return this.isTerminal ? this.out.columns || undefined : undefined;
  }

  /** Prints a result that cannot control a terminal or, if it is JSON, the program that reads it. */
  write(text: string): Promise<void> {
    return this.raw(safeText(text));
  }

  /** Whether the last line of results still lacks its line feed. */
  get hasOpenLine(): boolean {
    return this.isLineOpen;
  }

  /** Ends the last line of results. */
  async endLine(): Promise<void> {
    if (this.isLineOpen) await this.raw('\n');
  }

  /** Prints a result as it is, with back-pressure. */
  async raw(text: string): Promise<void> {
    if (text === '') return;
    this.live.hide();
    this.isLineOpen = !text.endsWith('\n');
    if (!this.out.write(text)) await once(this.out, 'drain');
    this.live.show();
  }

  line(text: string): Promise<void> {
    return this.write(`${text}\n`);
  }

  /** Prints values of the API, one per line. */
  json(...values: readonly unknown[]): Promise<void> {
    return this.write(values.map((value) => `${stringifyJson(value)}\n`).join(''));
  }

  /** Prints a message to standard error, which may be the same terminal or file: ends the last line of results. */
  note(text: string): void {
    this.live.hide();
    if (this.isLineOpen) this.out.write('\n');
    this.isLineOpen = false;
    this.err.write(`${plainText(text)}\n`);
    this.live.show();
  }

  /** Prints the warnings of a response as messages. @param placed puts before a text where it is about */
  warnings({ headers }: Pick<Response, 'headers'>, placed = (text: string) => text): void {
    for (const text of readWarnings(headers)) this.note(`longshore: warning: ${oneLine(placed(text))}`);
  }

  /** Prints a prompt without a line feed. */
  prompt(text: string): void {
    this.err.write(text);
  }
}

function hasColours(screen: Screen): boolean {
  return screen.isTTY === true && screen.hasColors?.() === true;
}

const BAR_CELLS = 24;
const BACK_TO_START = '\r\u001b[2K';

/** Content of the progress line. */
export interface Progress {
  /** Such as the state of a run. */
  readonly title: string;
  readonly colour: Colour;
  /** 0-100. */
  readonly progress: number;
  /** Stands behind the bar. */
  readonly detail: string;
}

/** The progress line at the bottom of a terminal. Prints nothing elsewhere. */
class LiveLine {
  private content: Progress | undefined;
  private isShown = false;

  constructor(
    private readonly screen: Writable & { readonly columns?: number },
    private readonly style: { readonly isLive: boolean; readonly colours: boolean },
  ) {}

  /** Whether the output is a terminal. */
  get isLive(): boolean {
    return this.style.isLive;
  }

  set(content: Progress): void {
    this.hide();
    this.content = content;
    this.show();
  }

  /** Removes the line. */
  clear(): void {
    this.hide();
    this.content = undefined;
  }

  /** Hides the line until {@link show}, so that other lines can be printed. */
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

/** Title, bar and detail, narrower than the terminal: a wrapped line cannot be overwritten. */
export function progressLine(
  { title, colour, progress, detail }: Progress,
  columns: number,
  colours: boolean,
): string {
  const filled = Math.round((Math.min(Math.max(progress, 0), 100) / 100) * BAR_CELLS);
  const parts: readonly (readonly [string, Colour | undefined])[] = [
    [`${title.padEnd(9)} `, colour],
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
