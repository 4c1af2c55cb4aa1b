import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { LiveLine } from './live-line.js';

/** A stream that may be a terminal. */
export interface Screen extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  hasColors?(): boolean;
}

/** Standard output for results, standard error for everything else; a progress line stands below both. */
export class Output {
  readonly live: LiveLine;
  /** Whether results may be coloured: NO_COLOR, FORCE_COLOR and TERM are honoured. */
  readonly colours: boolean;

  constructor(
    private readonly out: Screen,
    private readonly err: Screen,
    env: NodeJS.ProcessEnv,
  ) {
    this.colours = hasColours(out);
    const isLive = err.isTTY === true && env['TERM'] !== 'dumb';
    this.live = new LiveLine(err, { isLive, colours: hasColours(err) });
  }

  /** Whether results are read by a person and not by a program. */
  get isTerminal(): boolean {
    return this.out.isTTY === true;
  }

  /** Columns that a line may have; undefined: as many as it needs. */
  get columns(): number | undefined {
    return this.isTerminal ? this.out.columns || undefined : undefined;
  }

  /** Prints a result, at the speed of who reads it. */
  async write(text: string): Promise<void> {
    if (text === '') return;
    this.live.hide();
    if (!this.out.write(text)) await once(this.out, 'drain');
    this.live.show();
  }

  line(text: string): Promise<void> {
    return this.write(`${text}\n`);
  }

  /** Prints values of the API, one JSON text a line. */
  json(...values: readonly unknown[]): Promise<void> {
    return this.write(values.map((value) => `${JSON.stringify(value)}\n`).join(''));
  }

  /** Tells something that is no result. */
  note(text: string): void {
    this.live.hide();
    this.err.write(`${text}\n`);
    this.live.show();
  }

  /** Asks for something: the line goes on. */
  prompt(text: string): void {
    this.err.write(text);
  }
}

function hasColours(screen: Screen): boolean {
  return screen.isTTY === true && screen.hasColors?.() === true;
}
